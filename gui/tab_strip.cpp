#include "gui/tab_strip.h"

#include <QButtonGroup>
#include <QTabBar>
#include <algorithm>

namespace meshwright {
namespace {

constexpr int kStripGap = 2;

}  // namespace

TabStrip::TabStrip(QTabWidget& tabs, QWidget* parent) : QWidget(parent) {
  tabs.tabBar()->hide();
  auto* group = new QButtonGroup(this);
  for (int i = 0; i < tabs.count(); ++i) {
    auto* button = new QToolButton(this);
    button->setText(tabs.tabText(i));
    button->setCheckable(true);
    button->setAutoRaise(true);
    button->setChecked(i == tabs.currentIndex());
    group->addButton(button);
    buttons_.push_back(button);
    connect(button, &QToolButton::clicked, &tabs, [&tabs, i] { tabs.setCurrentIndex(i); });
  }
  connect(&tabs, &QTabWidget::currentChanged, this,
          [this](int index) { buttons_[static_cast<std::size_t>(index)]->setChecked(true); });
  QSizePolicy policy(QSizePolicy::Preferred, QSizePolicy::Fixed);
  policy.setHeightForWidth(true);
  setSizePolicy(policy);
}

std::vector<QRect> TabStrip::places(int width) const {
  std::vector<QRect> result;
  int x = kStripGap, y = kStripGap;
  for (const QToolButton* button : buttons_) {
    const QSize size = button->sizeHint();
    if (x > kStripGap && x + size.width() > width) {
      x = kStripGap;
      y += size.height() + kStripGap;
    }
    result.emplace_back(QPoint(x, y), size);
    x += size.width() + kStripGap;
  }
  return result;
}

int TabStrip::heightForWidth(int width) const {
  int height = 0;
  for (const QRect& place : places(width)) height = std::max(height, place.bottom() + 1);
  return height + kStripGap;
}

QSize TabStrip::sizeHint() const { return {200, heightForWidth(200)}; }

void TabStrip::resizeEvent(QResizeEvent*) {
  const std::vector<QRect> all = places(width());
  for (std::size_t i = 0; i < all.size(); ++i) buttons_[i]->setGeometry(all[i]);
}

}  // namespace meshwright

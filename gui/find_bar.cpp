#include "gui/find_bar.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QTimer>
#include <QToolButton>

namespace meshwright {

FindBar::FindBar(QWidget* parent) : QWidget(parent), name_(this), letters_(this), count_(this) {
  auto* line = new QHBoxLayout(this);
  line->setContentsMargins(6, 2, 6, 2);
  letters_.setPlaceholderText("letters of a name");
  letters_.setAccessibleName("Letters to look for");
  letters_.setMaximumWidth(320);
  letters_.installEventFilter(this);
  count_.setMinimumWidth(90);
  line->addWidget(&name_);
  line->addWidget(&letters_, 1);
  line->addWidget(&count_);
  const auto button = [&](const char* text, const char* help, auto run) {
    auto* one = new QToolButton(this);
    one->setText(text);
    one->setToolTip(help);
    line->addWidget(one);
    connect(one, &QToolButton::clicked, this, run);
  };
  button("\u2191", "The match before (Shift+Enter)", [this] { step(-1); });
  button("\u2193", "The next match (Enter)", [this] { step(1); });
  button("\u00d7", "Close (Esc)", [this] { finish(); });
  line->addStretch(1);
  auto* pause = new QTimer(this);
  pause->setSingleShot(true);
  pause->setInterval(150);
  connect(&letters_, &QLineEdit::textEdited, pause, [pause] { pause->start(); });
  connect(pause, &QTimer::timeout, this, [this] {
    if (view_) view_->find(letters_.text().toStdString());
  });
  hide();
}

void FindBar::open(Findable& view, const QString& name) {
  if (view_ && view_ != &view) finish();
  view_ = &view;
  view.matches_changed = [this] {
    at_ = 0;
    shown_ = false;
    show_count();
  };
  name_.setText("Find in " + name);
  show();
  letters_.setFocus(Qt::ShortcutFocusReason);
  letters_.selectAll();
  view.find(letters_.text().toStdString());
  show_count();
}

void FindBar::finish() {
  hide();
  if (!view_) return;
  Findable& view = *view_;
  view_ = nullptr;
  view.matches_changed = {};
  view.find("");
}

void FindBar::step(int by) {
  if (!view_ || view_->match_count() == 0) return;
  const std::size_t count = view_->match_count();
  if (shown_) at_ = (at_ + (by > 0 ? 1 : count - 1)) % count;
  shown_ = true;
  view_->show_match(at_);
  show_count();
}

void FindBar::show_count() {
  const std::size_t count = view_ ? view_->match_count() : 0;
  count_.setText(letters_.text().isEmpty() ? QString()
                 : count == 0              ? QString("none")
                              : QString("%1 / %2").arg(shown_ ? at_ + 1 : 0).arg(count));
}

bool FindBar::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::KeyPress) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->key() == Qt::Key_Escape) {
      finish();
      return true;
    }
    if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
      step(key->modifiers() & Qt::ShiftModifier ? -1 : 1);
      return true;
    }
  }
  return QWidget::eventFilter(watched, event);
}

}  // namespace meshwright

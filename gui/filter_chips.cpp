#include "gui/filter_chips.h"

#include <QToolButton>

namespace meshwright {

FilterChips::FilterChips(GuiSession& session, QWidget* parent)
    : QWidget(parent), session_(session), line_(this) {
  line_.setContentsMargins(0, 0, 0, 0);
  line_.setSpacing(4);
  line_.addStretch(1);
  // Many terms do not make the table wider.
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  setVisible(false);
  connect(&session, &GuiSession::visible_changed, this, [this] { load(); });
  load();
}

void FilterChips::load() {
  if (session_.filter() == shown_) return;
  shown_ = session_.filter();
  while (line_.count() > 1) {
    QLayoutItem* item = line_.takeAt(0);
    // The one that was pressed is still at work.
    item->widget()->deleteLater();
    delete item;
  }
  for (const FilterTerm& term : shown_.terms) {
    auto* chip = new QToolButton(this);
    chip->setText(QString::fromStdString(to_text(term)).replace("&", "&&") + "  \u00d7");
    chip->setToolTip("Takes this term away");
    chip->setAccessibleName(QString::fromStdString("Take away " + to_text(term)));
    connect(chip, &QToolButton::clicked, this,
            [this, term] { session_.set_filter(filter_without(session_.filter(), term)); });
    line_.insertWidget(line_.count() - 1, chip);
  }
  setVisible(!shown_.terms.empty());
}

}  // namespace meshwright

#include "gui/knobs_view.h"

#include <QHeaderView>

#include "cli/difference_text.h"
#include "gui/table_look.h"
#include "gui/theme.h"

namespace meshwright {
namespace {

QTableWidgetItem* cell(const std::string& text, bool number) {
  auto* item = new QTableWidgetItem(QString::fromStdString(text));
  item->setTextAlignment((number ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  return item;
}

}  // namespace

KnobsView::KnobsView(GuiSession& session, QWidget* parent)
    : QTableWidget(parent), session_(session) {
  setAccessibleName("What other choices would cost");
  setColumnCount(4);
  setHorizontalHeaderLabels({"Instead", "Step", "Needs", "Fits"});
  horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
  horizontalHeader()->setSectionResizeMode(1, QHeaderView::ResizeToContents);
  horizontalHeader()->setSectionResizeMode(2, QHeaderView::ResizeToContents);
  horizontalHeader()->setSectionResizeMode(3, QHeaderView::ResizeToContents);
  show_rows(*this, 8);
  connect(&session, &GuiSession::knobs_changed, this, [this] { load(); });
  connect(&session, &GuiSession::theme_changed, this, [this] { load(); });
  connect(this, &QTableWidget::cellDoubleClicked, this, [this](int row, int) {
    if (!session_.detail()) return;
    session_.try_plan(session_.detail()->name + "," + item(row, 0)->text().toStdString());
  });
  load();
}

void KnobsView::load() {
  setRowCount(0);
  if (!session_.knobs() || !session_.detail()) return;
  const Theme& colors = theme(session_.dark());
  const Report& report = session_.detail()->prediction.report;
  for (const KnobPrice& knob : *session_.knobs()) {
    const int row = rowCount();
    insertRow(row);
    setItem(row, 0, cell(knob.name, false));
    if (!knob.report) {
      setItem(row, 1, cell("refused", false));
      item(row, 0)->setToolTip(QString::fromStdString(knob.problem).toHtmlEscaped());
      item(row, 1)->setToolTip(item(row, 0)->toolTip());
      item(row, 0)->setForeground(colors.dim);
      item(row, 1)->setForeground(colors.dim);
      continue;
    }
    const Bytes needed = Report::needed(knob.report->fullest());
    setItem(row, 1, cell(difference_text(knob.report->step, report.step), true));
    setItem(row, 2, cell(difference_text(needed, Report::needed(report.fullest())), true));
    setItem(row, 3, cell(std::string(to_text(knob.report->fits)), false));
    item(row, 1)->setToolTip(QString::fromStdString(to_text(knob.report->step)));
    item(row, 2)->setToolTip(QString::fromStdString(to_text(needed)));
    // Faster and fitting is worth a look.
    QFont font = item(row, 1)->font();
    font.setBold(knob.report->step < report.step && knob.report->fits == Fit::Yes);
    for (int column = 0; column < 4; ++column) {
      item(row, column)->setFont(font);
      if (knob.report->fits != Fit::Yes) item(row, column)->setForeground(colors.dim);
    }
  }
}

}  // namespace meshwright

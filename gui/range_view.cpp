#include "gui/range_view.h"

#include <fmt/format.h>

#include <QHeaderView>
#include <QVBoxLayout>

#include "gui/cost_view.h"
#include "gui/table_look.h"
#include "gui/ticks.h"

namespace meshwright {

RangeView::RangeView(GuiSession& session, QWidget* parent)
    : QWidget(parent), session_(session), title_(this), times_(this) {
  setAccessibleName("Statistics of a stretch of time");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 6, 6, 6);
  title_.setWordWrap(true);
  title_.setTextInteractionFlags(Qt::TextSelectableByMouse);
  layout->addWidget(&title_);
  layout->addWidget(&times_, 1);
  times_.setColumnCount(4);
  times_.setHorizontalHeaderLabels({"Part", "Kind", "Time", "Share"});
  times_.horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
  show_rows(times_, 6);
  connect(&session, &GuiSession::range_changed, this, [this] { load(); });
  load();
}

void RangeView::add_row(const std::vector<QString>& cells) {
  const int row = times_.rowCount();
  times_.insertRow(row);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    auto* cell = new QTableWidgetItem(cells[i]);
    if (i >= 2) cell->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
    times_.setItem(row, static_cast<int>(i), cell);
  }
}

void RangeView::load() {
  times_.setRowCount(0);
  const auto& range = session_.range();
  if (!range) {
    return title_.setText(
        "A drag in the timeline measures: what the device does in it stands here.");
  }
  const TimelineLanes& lanes =
      range->predicted ? session_.detail()->lanes : session_.traced()->lanes;
  std::string text =
      fmt::format("{}, {}, from {} to {}: {}", range->predicted ? "predicted" : "trace",
                  lanes.devices[range->device].name, moment_text(range->from, 1e3),
                  moment_text(range->to, 1e3), duration_text(range->to - range->from));
  if (const auto& times = session_.range_times()) {
    const TimeShares shares = shares_of(*times);
    text += fmt::format("\ncomputes {:.1f} %, transfers that nothing hides {:.1f} %, idle {:.1f} %",
                        100 * shares.computing, 100 * shares.exposed, 100 * shares.idle);
    const Seconds all(static_cast<double>(range->to - range->from) / 1e9);
    for (const KindTime& time : *times) {
      add_row({words_of_part(time.part), QString::fromStdString(time.kind),
               QString::fromStdString(to_text(time.time)),
               QString::fromStdString(fmt::format("{:.1f} %", 100 * (time.time / all)))});
    }
    times_.resizeColumnsToContents();
  }
  title_.setText(QString::fromStdString(text));
}

}  // namespace meshwright

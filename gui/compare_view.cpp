#include "gui/compare_view.h"

#include <fmt/format.h>

#include <QHeaderView>
#include <QPainter>
#include <QSplitter>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "cli/choice_columns.h"
#include "cli/difference_text.h"
#include "cli/report_view.h"
#include "gui/cost_view.h"
#include "gui/lane_painter.h"
#include "gui/ticks.h"
#include "gui/timeline_view.h"

namespace meshwright {
namespace {

constexpr int kLetterLine = 22, kPlanLane = 12;

QString letter_of(std::size_t plan) { return QString(QChar('A' + static_cast<int>(plan))); }

// The waterfalls beside each other, and the steps below each other.
class ComparePicture : public QWidget {
 public:
  ComparePicture(GuiSession& session, QWidget* parent) : QWidget(parent), session_(session) {
    setAttribute(Qt::WA_OpaquePaintEvent);
    setMinimumHeight(260);
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    const Theme& colors = theme(session_.dark());
    painter.fillRect(rect(), colors.background);
    const auto& plans = session_.compared();
    if (plans.size() < 2) {
      painter.setPen(colors.dim);
      painter.drawText(rect(), Qt::AlignCenter,
                       "Space marks plans in the table; two to four are compared here");
      return;
    }
    const int lines = steps_height();
    const int room = height() - lines - 12;
    const auto pairs = static_cast<int>(plans.size()) - 1;
    for (int i = 0; i < pairs; ++i) {
      paint_waterfall(painter, colors, static_cast<std::size_t>(i) + 1,
                      QRect(i * width() / pairs, 4, width() / pairs, room));
    }
    paint_steps(painter, colors, QRect(0, height() - lines, width(), lines));
  }

 private:
  int steps_height() const {
    int height = kLetterLine;
    for (const auto& plan : session_.compared()) height += plan_height(*plan);
    return std::min(height, this->height() / 2);
  }
  static int plan_height(const PlanDetail& plan) {
    const auto lanes = std::min<std::size_t>(plan.lanes.devices.size(), 8);
    return static_cast<int>(lanes) * kPlanLane + 8;
  }

  void paint_waterfall(QPainter& painter, const Theme& colors, std::size_t other,
                       const QRect& area) const {
    const ComparedStep &first = session_.compared()[0]->step,
                       &second = session_.compared()[other]->step;
    const auto bars = waterfall(first, second);
    double least = first.step.value(), most = least;
    for (const WaterfallBar& bar : bars) {
      if (bar.part.empty()) continue;
      least = std::min({least, bar.from.value(), bar.to.value()});
      most = std::max({most, bar.from.value(), bar.to.value()});
    }
    const double margin = std::max((most - least) * 0.25, most * 0.01);
    const double low = std::max(0.0, least - margin), high = most + margin * 0.4;
    const int bottom = area.bottom() - 44, top = area.top() + 24;
    const auto y_of = [&](double value) {
      return bottom - (value - low) / (high - low) * (bottom - top);
    };
    painter.setPen(colors.text);
    painter.drawText(QRect(area.left() + 8, area.top(), area.width() - 16, 20), Qt::AlignVCenter,
                     QString("from %1 to %2: %3")
                         .arg(letter_of(0), letter_of(other),
                              QString::fromStdString(difference_text(second.step, first.step))));
    const double slot = static_cast<double>(area.width() - 24) / static_cast<double>(bars.size());
    double x = area.left() + 12;
    for (const WaterfallBar& bar : bars) {
      const double a = y_of(std::max(low, bar.from.value())), b = y_of(bar.to.value());
      const QRectF box(x + slot * 0.12, std::min(a, b), slot * 0.76,
                       std::max(1.5, std::abs(a - b)));
      if (bar.part.empty()) {
        painter.fillRect(box, colors.dim);
      } else {
        paint_part(painter, colors, box, bar.part);
      }
      painter.setPen(colors.text);
      const Seconds change = bar.to - bar.from;
      const std::string figure = bar.part.empty() ? to_text(bar.to)
                                 : change >= Seconds(0)
                                     ? fmt::format("+{}", to_text(change))
                                     : fmt::format("\u2212{}", to_text(Seconds(0) - change));
      painter.drawText(QRectF(x - 20, box.top() - 16, slot + 40, 15), Qt::AlignCenter,
                       QString::fromStdString(figure));
      painter.setPen(colors.dim);
      painter.drawText(QRectF(x, bottom + 4, slot, 38), Qt::AlignHCenter | Qt::TextWordWrap,
                       bar.part.empty() ? (x < area.left() + 13 ? letter_of(0) : letter_of(other))
                                        : words_of_part(bar.part));
      x += slot;
    }
  }

  void paint_steps(QPainter& painter, const Theme& colors, const QRect& area) const {
    std::int64_t end = 1;
    for (const auto& plan : session_.compared()) end = std::max(end, plan->lanes.end);
    const TimeAxis axis{0, end};
    const int left = 60, room = std::max(1, area.width() - left - 12);
    paint_time_ruler(painter, QRect(left, area.top(), room, kLetterLine), axis, colors,
                     area.bottom());
    int y = area.top() + kLetterLine;
    const double scale = devicePixelRatioF();
    QImage image(QSize(room, kPlanLane - 1) * scale, QImage::Format_RGB32);
    image.setDevicePixelRatio(scale);
    std::vector<QRgb> line(static_cast<std::size_t>(image.width()));
    for (std::size_t i = 0; i < session_.compared().size(); ++i) {
      const TimelineLanes& lanes = session_.compared()[i]->lanes;
      const int height = plan_height(*session_.compared()[i]);
      painter.setPen(colors.text);
      painter.drawText(QRect(8, y, left - 12, height - 8), Qt::AlignCenter, letter_of(i));
      const std::size_t shown = std::min<std::size_t>(lanes.devices.size(), 8);
      for (std::size_t d = 0; d < shown; ++d) {
        const TimelineDevice& device = lanes.devices[d * lanes.devices.size() / shown];
        if (device.lane_count == 0) continue;
        paint_lane(line, lanes.lanes[device.first_lane], axis, colors, colors.stripe.rgb());
        for (int row = 0; row < image.height(); ++row) {
          std::ranges::copy(line, reinterpret_cast<QRgb*>(image.scanLine(row)));
        }
        painter.drawImage(QPoint(left, y + static_cast<int>(d) * kPlanLane), image);
      }
      y += height;
    }
  }

  GuiSession& session_;
};

}  // namespace

std::vector<WaterfallBar> waterfall(const ComparedStep& first, const ComparedStep& second) {
  constexpr double kWorthABar = 0.02;  // of all that changes
  const auto differences = part_differences(first, second);
  double changed = 0;
  for (const PartDifference& one : differences)
    changed += std::abs((one.second - one.first).value());
  std::vector<WaterfallBar> bars = {{"", Seconds(0), first.step}};
  Seconds level = first.step, rest;
  for (const PartDifference& one : differences) {
    const Seconds change = one.second - one.first;
    if (std::abs(change.value()) < kWorthABar * changed || change == Seconds(0)) {
      rest += change;
      continue;
    }
    bars.push_back({one.part, level, level + change});
    level += change;
  }
  if (rest != Seconds(0)) bars.push_back({"others", level, level + rest});
  bars.push_back({"", Seconds(0), second.step});
  return bars;
}

CompareView::CompareView(GuiSession& session, QWidget* parent)
    : QWidget(parent), session_(session), table_(this) {
  setAccessibleName("Comparison of plans");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  auto* parts = new QSplitter(Qt::Vertical, this);
  table_.setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_.setShowGrid(false);
  table_.setAlternatingRowColors(true);
  table_.verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 8);
  // A plan's name is long: its start is seen, all of it on a tip.
  table_.horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  table_.horizontalHeader()->setTextElideMode(Qt::ElideRight);
  table_.horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
  parts->addWidget(&table_);
  picture_ = new ComparePicture(session, parts);
  parts->addWidget(picture_);
  parts->setSizes({300, 460});
  layout->addWidget(parts);
  connect(&session, &GuiSession::compared_changed, this, [this] { load(); });
  connect(&session, &GuiSession::theme_changed, this, [this] { picture_->update(); });
  load();
}

void CompareView::add_row(const QString& name, const std::vector<std::string>& cells) {
  const int row = table_.rowCount();
  table_.insertRow(row);
  table_.setVerticalHeaderItem(row, new QTableWidgetItem(name));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    table_.setItem(row, static_cast<int>(i),
                   new QTableWidgetItem(QString::fromStdString(cells[i])));
  }
}

void CompareView::load() {
  table_.setRowCount(0);
  const auto& plans = session_.compared();
  table_.setColumnCount(static_cast<int>(plans.size()));
  picture_->update();
  if (plans.empty()) return;
  std::vector<PlanChoices> choices;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const QString name = QString::fromStdString(plans[i]->name);
    auto* title = new QTableWidgetItem(letter_of(i) + "   " + name);
    title->setToolTip(name);
    table_.setHorizontalHeaderItem(static_cast<int>(i), title);
    choices.push_back(*plans[i]->choices);
  }
  const auto figures = [&](const char* name, const auto& value) {
    std::vector<std::string> cells;
    for (const auto& plan : plans) {
      std::string text = to_text(value(*plan));
      if (plan != plans.front()) {
        text += "   (" + difference_text(value(*plan), value(*plans.front())) + ")";
      }
      cells.push_back(text);
    }
    add_row(name, cells);
  };
  const auto shares = [&](const char* name, double Report::*share) {
    std::vector<std::string> cells;
    for (const auto& plan : plans) {
      cells.push_back(fmt::format("{:.1f} %", 100 * (plan->prediction.report.*share)));
    }
    add_row(name, cells);
  };
  figures("step", [](const PlanDetail& plan) { return plan.step.step; });
  figures("needs",
          [](const PlanDetail& plan) { return Report::needed(plan.prediction.report.fullest()); });
  shares("MFU", &Report::mfu);
  shares("bubble", &Report::bubble);
  const ChoiceColumns columns = choice_columns(choices, plans.front()->asked->question.defaults);
  for (std::size_t key = 0; key < columns.names.size(); ++key) {
    std::vector<std::string> cells;
    for (const auto& values : columns.values) cells.push_back(values[key]);
    add_row(QString::fromStdString(columns.names[key]), cells);
  }
}

}  // namespace meshwright

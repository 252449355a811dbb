// Published runs in the view of the cluster: predicted against measured.
#include <fmt/format.h>

#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "gui/cluster_view.h"
#include "gui/plan_points.h"
#include "gui/ticks.h"

namespace meshwright {
namespace {

// Both axes have the same range, and tell times apart by how often one goes into the other.
struct RunScales {
  Scale x, y;
};

RunScales scales_of(const std::vector<RunOutcome>& runs, const QRect& area) {
  double least = 1, most = 1;
  bool first = true;
  for (const RunOutcome& one : runs) {
    if (!one.prediction) continue;
    for (const double time : {one.run.step->value(), one.prediction->step.value()}) {
      least = first ? time : std::min(least, time);
      most = first ? time : std::max(most, time);
      first = false;
    }
  }
  const double from = std::floor(std::log10(least) - 0.05), to = std::ceil(std::log10(most) + 0.05);
  return {{from, to, static_cast<double>(area.left()), static_cast<double>(area.right())},
          {from, to, static_cast<double>(area.bottom()), static_cast<double>(area.top())}};
}

QPointF place_of(const RunOutcome& one, const RunScales& scales) {
  return {scales.x.pixel_of(std::log10(one.run.step->value())),
          scales.y.pixel_of(std::log10(one.prediction->step.value()))};
}

std::string words_of_runs(const RunsCompared& runs, bool running) {
  if (runs.all == 0 && runs.runs.empty()) {
    return running
               ? "reading published runs ..."
               : "Published runs on such devices, predicted against measured: not predicted yet";
  }
  std::string text =
      fmt::format("published runs on {}: {} of {}",
                  runs.device.empty() ? "any device" : runs.device, runs.runs.size(), runs.all);
  if (runs.scored && runs.scored->step) {
    text += fmt::format(", {} predicted, off by {:.1f} % (median {:.1f} %)", runs.scored->predicted,
                        100 * runs.scored->step->mean, 100 * runs.scored->step->median);
  }
  return text;
}

}  // namespace

QRect ClusterView::runs_chart() const {
  return {width() / 2 + 56, height() / 2 + 46, width() / 2 - 92, height() / 2 - 96};
}

void ClusterView::paint_runs(QPainter& painter, const Theme& colors) const {
  const QRect area = runs_chart();
  const RunsCompared& runs = session_.runs();
  painter.setPen(colors.text);
  painter.drawText(QRect(area.left() - 44, area.top() - 24, area.width() + 70, 20),
                   Qt::AlignVCenter,
                   painter.fontMetrics().elidedText(
                       QString::fromStdString(words_of_runs(runs, session_.comparing_runs())),
                       Qt::ElideRight, area.width() + 70));
  if (std::ranges::none_of(runs.runs,
                           [](const RunOutcome& one) { return one.prediction.has_value(); }))
    return;
  const RunScales scales = scales_of(runs.runs, area);
  for (double power = scales.x.from; power <= scales.x.to + 0.5; ++power) {
    const QString label = QString::fromStdString(to_text(Seconds(std::pow(10, power))));
    const double x = scales.x.pixel_of(power), y = scales.y.pixel_of(power);
    painter.setPen(colors.grid);
    painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
    painter.setPen(colors.dim);
    // The first keeps away from that of the other axis.
    const bool first = power == scales.x.from;
    painter.drawText(QRectF(first ? x : x - 40, area.bottom() + 4, 80, 16),
                     (first ? Qt::AlignLeft : Qt::AlignHCenter) | Qt::AlignVCenter, label);
    painter.drawText(QRectF(area.left() - 66, y - 9, 60, 18), Qt::AlignRight | Qt::AlignVCenter,
                     label);
  }
  painter.drawText(QRect(area.left(), area.bottom() + 20, area.width(), 18), Qt::AlignCenter,
                   "measured, against predicted upwards; on the line they are the same");
  painter.setPen(QPen(colors.dim, 1.2, Qt::DashLine));
  painter.drawLine(QPointF(area.left(), area.bottom()), QPointF(area.right(), area.top()));
  QColor color = colors.fits;
  color.setAlpha(170);
  painter.setPen(Qt::NoPen);
  painter.setBrush(color);
  for (const RunOutcome& one : runs.runs) {
    if (one.prediction) painter.drawEllipse(place_of(one, scales), 3.2, 3.2);
  }
}

void ClusterView::mouseMoveEvent(QMouseEvent* event) {
  constexpr double kReach = 8;
  const RunScales scales = scales_of(session_.runs().runs, runs_chart());
  const RunOutcome* nearest = nullptr;
  double best = kReach;
  for (const RunOutcome& one : session_.runs().runs) {
    if (!one.prediction) continue;
    const QPointF away = place_of(one, scales) - event->pos();
    const double distance = std::hypot(away.x(), away.y());
    if (distance >= best) continue;
    best = distance;
    nearest = &one;
  }
  if (!nearest) return QToolTip::hideText();
  const Pair pair{nearest->run.step->value(), nearest->prediction->step.value()};
  QToolTip::showText(
      event->globalPosition().toPoint(),
      QString::fromStdString(fmt::format(
          "{}: {} on {} {}\nmeasured {}, predicted {} ({:+.1f} %)", nearest->run.id,
          nearest->run.model, nearest->run.devices.value_or(1), nearest->run.gpu,
          to_text(*nearest->run.step), to_text(nearest->prediction->step), 100 * error_of(pair))),
      this);
}

}  // namespace meshwright

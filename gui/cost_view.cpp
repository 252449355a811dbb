#include "gui/cost_view.h"

#include <fmt/format.h>

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "simulator/report/time_parts.h"

namespace meshwright {
namespace {

constexpr int kBarLine = 22, kDeviceLine = 20, kNames = 146, kFigures = 118;

}  // namespace

Hue hue_of_part(std::string_view part) {
  if (part == "forward") return Hue::Forward;
  if (part == "input_gradient") return Hue::InputGradient;
  if (part == "weight_gradient") return Hue::WeightGradient;
  if (part == "optimizer") return Hue::Optimizer;
  if (part == "recomputation") return Hue::Recompute;
  constexpr std::string_view kTransfer = "_transfer";
  if (part.ends_with(kTransfer)) {
    return hue_of_transfer(part.substr(0, part.size() - kTransfer.size()));
  }
  if (part.starts_with("copy_")) return Hue::Copy;
  return Hue::Idle;
}

QString words_of_part(std::string_view part) {
  QString words = QString::fromUtf8(part.data(), static_cast<qsizetype>(part.size()));
  if (words == "dispatch") return "waiting for the host";
  return words.replace('_', ' ');
}

void paint_part(QPainter& painter, const Theme& colors, const QRectF& bar, std::string_view part) {
  const Hue hue = hue_of_part(part);
  if (hue != Hue::Idle) return fill_hue(painter, bar, colors, hue);
  painter.fillRect(bar, colors.stripe);
  painter.fillRect(bar, QBrush(colors.dim, Qt::BDiagPattern));
}

CostView::CostView(GuiSession& session, QWidget* parent) : QWidget(parent), session_(session) {
  setAttribute(Qt::WA_OpaquePaintEvent);
  setAccessibleName("Where the step goes");
  connect(&session, &GuiSession::detail_changed, this, [this] { fit_height(); });
  connect(&session, &GuiSession::theme_changed, this, [this] { update(); });
  fit_height();
}

void CostView::fit_height() {
  const std::size_t devices =
      session_.detail() ? session_.detail()->prediction.report.devices.size() : 0;
  setMinimumHeight(420 + kDeviceLine * static_cast<int>(devices));
  update();
}

void CostView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Theme& colors = theme(session_.dark());
  painter.fillRect(rect(), colors.background);
  if (!session_.detail()) return;
  const Report& report = session_.detail()->prediction.report;
  const int below = paint_bars(painter, colors, report, 8);
  paint_devices(painter, colors, report, below + 14);
}

int CostView::paint_bars(QPainter& painter, const Theme& colors, const Report& report,
                         int top) const {
  painter.setPen(colors.text);
  painter.drawText(
      QRect(8, top, width() - 16, 20), Qt::AlignVCenter,
      QString::fromStdString(fmt::format("step {}, of device {}, which finishes last",
                                         to_text(report.step), report.last().device.index())));
  int y = top + 26;
  Seconds longest;
  for (const auto& [name, time] : named_parts(report.last().parts))
    longest = std::max(longest, time);
  const double room = std::max(20, width() - kNames - kFigures - 16);
  for (const auto& [name, time] : named_parts(report.last().parts)) {
    if (time == Seconds(0)) continue;
    painter.setPen(colors.text);
    painter.drawText(
        QRect(8, y, kNames - 8, kBarLine), Qt::AlignVCenter | Qt::AlignRight,
        painter.fontMetrics().elidedText(words_of_part(name), Qt::ElideRight, kNames - 8));
    const QRectF bar(kNames + 8, y + 3, std::max(1.0, room * (time / longest)), kBarLine - 6);
    paint_part(painter, colors, bar, name);
    painter.drawText(QRectF(bar.right() + 6, y, kFigures, kBarLine), Qt::AlignVCenter,
                     QString::fromStdString(
                         fmt::format("{}  {:.1f} %", to_text(time), 100 * (time / report.step))));
    y += kBarLine;
  }
  return y;
}

int CostView::paint_devices(QPainter& painter, const Theme& colors, const Report& report,
                            int top) const {
  painter.setPen(colors.text);
  painter.drawText(QRect(8, top, width() - 16, 20), Qt::AlignVCenter,
                   "every device, the whole step");
  int y = top + 24;
  const double room = std::max(20, width() - kNames - 24);
  for (const DeviceReport& device : report.devices) {
    const QString count = device.count > 1 ? QString("  \u00d7%1").arg(device.count) : QString();
    painter.setPen(colors.text);
    painter.drawText(QRect(8, y, kNames - 8, kDeviceLine), Qt::AlignVCenter | Qt::AlignRight,
                     QString("device %1%2").arg(device.device.index()).arg(count));
    double x = kNames + 8;
    for (const auto& [name, time] : named_parts(device.parts)) {
      const double width_of = room * (time / report.step);
      paint_part(painter, colors, QRectF(x, y + 2, width_of, kDeviceLine - 4), name);
      x += width_of;
    }
    y += kDeviceLine;
  }
  return y;
}

bool CostView::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip && session_.detail()) {
    const auto* help = static_cast<QHelpEvent*>(event);
    QToolTip::showText(help->globalPos(),
                       "Transfers and copies count only while no kernel hides them.\n"
                       "Every moment counts once, so that the parts add up to the step.",
                       this);
    return true;
  }
  return QWidget::event(event);
}

}  // namespace meshwright

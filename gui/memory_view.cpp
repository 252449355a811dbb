#include "gui/memory_view.h"

#include <fmt/format.h>

#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "gui/ticks.h"
#include "gui/timeline_view.h"

namespace meshwright {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

QString words_of_peak(const DeviceReport& device) {
  return QString::fromStdString(
      fmt::format("peak {} of {}", to_text(Report::needed(device)), to_text(device.capacity)));
}

}  // namespace

MemoryView::MemoryView(GuiSession& session, QWidget* parent) : QWidget(parent), session_(session) {
  setMouseTracking(true);
  setAttribute(Qt::WA_OpaquePaintEvent);
  setAccessibleName("Memory over the step");
  connect(&session, &GuiSession::detail_changed, this, [this] { load(); });
  connect(&session, &GuiSession::device_changed, this, [this] { load(); });
  connect(&session, &GuiSession::time_changed, this, [this] { update(); });
  connect(&session, &GuiSession::theme_changed, this, [this] { update(); });
  load();
}

void MemoryView::load() {
  curve_ = {};
  const auto& detail = session_.detail();
  if (detail) {
    curve_ = MemoryCurve(detail->prediction.timeline.devices[session_.device()].memory);
    const DeviceReport& device = detail->prediction.report.devices[session_.device()];
    const auto most = std::max(Report::needed(device), device.capacity);
    top_ = static_cast<double>(most.value()) * 1.06;
  }
  lay_out_legend();
  update();
}

void MemoryView::resizeEvent(QResizeEvent*) { lay_out_legend(); }

void MemoryView::lay_out_legend() {
  shown_.clear();
  legend_ = {};
  if (!session_.detail()) return;
  const DeviceReport& device = session_.detail()->prediction.report.devices[session_.device()];
  QStringList names;
  for (std::size_t i = 0; i < kComponents; ++i) {
    if (device.by_component[i] == 0_B) continue;
    shown_.push_back(i);
    names += QString::fromStdString(std::string(to_text(static_cast<Component>(i))));
  }
  shown_.push_back(kComponents);
  names += "held besides";
  names += words_of_peak(device);
  legend_ = Legend(names, fontMetrics(), kTimeGutter, kTimeGutter, width());
}

QRect MemoryView::plot() const {
  return {kTimeGutter, legend_.height(), std::max(1, width() - kTimeGutter - 8),
          std::max(1, height() - legend_.height() - 6)};
}

Bytes MemoryView::besides() const {
  const DeviceReport& device = session_.detail()->prediction.report.devices[session_.device()];
  return Report::needed(device) - total(device.by_component);
}

double MemoryView::y_of(double bytes) const {
  const QRect area = plot();
  return area.bottom() + 1 - bytes / top_ * area.height();
}

void MemoryView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Theme& colors = theme(session_.dark());
  painter.fillRect(rect(), colors.background);
  if (curve_.empty() || !session_.detail()) return;
  paint_axes(painter, colors);
  paint_areas(painter, colors);
  paint_limit(painter, colors);
  paint_legend(painter, colors);
}

void MemoryView::paint_axes(QPainter& painter, const Theme& colors) const {
  const QRect area = plot();
  painter.fillRect(area, colors.stripe);
  const Ticks ticks =
      round_ticks(0, top_ / kGiB, static_cast<std::size_t>(std::max(2, area.height() / 32)));
  for (std::size_t i = 0; i < ticks.count; ++i) {
    const double y = y_of(ticks.at(i) * kGiB);
    painter.setPen(colors.grid);
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
    painter.setPen(colors.dim);
    painter.drawText(QRectF(0, y - 9, kTimeGutter - 8, 18), Qt::AlignRight | Qt::AlignVCenter,
                     QString("%1 GiB").arg(ticks.at(i)));
  }
}

// How far up each component goes in every column of pixels that the step is in, at the column's
// fullest moment: what the software holds besides first, then components in their order.
std::vector<MemoryView::Heights> MemoryView::heights(int columns, double scale) const {
  const TimeAxis axis = session_.time();
  const double step = session_.detail()->prediction.timeline.step.value();
  std::vector<double> edges;  // of columns, in seconds
  for (int x = 0; x <= columns; ++x) {
    edges.push_back(static_cast<double>(axis.time_at(x, columns)) / 1e9);
    if (edges.back() >= step) break;
  }
  edges.back() = std::min(edges.back(), step);
  std::vector<Heights> result(static_cast<std::size_t>(columns));
  const double pixels = plot().height() * scale / top_;  // of a byte
  const auto below = static_cast<double>(besides().value());
  const auto fullest = curve_.fullest_along(edges);
  for (std::size_t x = 0; x < fullest.size(); ++x) {
    double bytes = below;
    for (std::size_t i = 0; i <= kComponents; ++i) {
      if (i > 0) bytes += static_cast<double>(fullest[x]->bytes[i - 1].value());
      result[x][i] = static_cast<int>(bytes * pixels);
    }
  }
  return result;
}

// Line by line from below, as pixels lie in memory.
void MemoryView::paint_areas(QPainter& painter, const Theme& colors) {
  const QRect area = plot();
  const double scale = devicePixelRatioF();
  const QSize size = area.size() * scale;
  if (areas_.size() != size) areas_ = QImage(size, QImage::Format_ARGB32_Premultiplied);
  areas_.setDevicePixelRatio(scale);
  const std::vector<Heights> tops = heights(size.width(), scale);
  std::array<QRgb, kComponents + 2> shades{};  // of each height, and nothing above
  for (std::size_t i = 0; i <= kComponents; ++i) {
    shades[i] = colors.memory[i == 0 ? kComponents : i - 1].rgb();
  }
  // Of each column: the height that it is in, where that ends, and its colour. Most lines are as
  // the one below, which is quickly seen and copied.
  std::vector<std::uint8_t> reached(tops.size());
  std::vector<int> ends(tops.size());
  std::vector<QRgb> colours(tops.size(), shades[0]);
  for (std::size_t x = 0; x < tops.size(); ++x) ends[x] = tops[x][0];
  for (int line = 0; line < size.height(); ++line) {
    int first_end = size.height();
    for (const int end : ends) first_end = std::min(first_end, end);
    for (std::size_t x = 0; first_end <= line && x < tops.size(); ++x) {
      if (ends[x] > line) continue;
      while (reached[x] <= kComponents && tops[x][reached[x]] <= line) ++reached[x];
      ends[x] = reached[x] <= kComponents ? tops[x][reached[x]] : size.height();
      colours[x] = shades[reached[x]];
    }
    std::ranges::copy(colours, reinterpret_cast<QRgb*>(areas_.scanLine(size.height() - 1 - line)));
  }
  painter.drawImage(area.topLeft(), areas_);
}

void MemoryView::paint_limit(QPainter& painter, const Theme& colors) const {
  const QRect area = plot();
  const DeviceReport& device = session_.detail()->prediction.report.devices[session_.device()];
  const double y = y_of(static_cast<double>(device.capacity.value()));
  painter.setPen(QPen(colors.limit, 1.5, Qt::DashLine));
  painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
  const double peak_x =
      area.left() +
      session_.time().pixel_of(std::llround(device.peak_time.value() * 1e9), area.width());
  if (peak_x < area.left() || peak_x > area.right()) return;
  const double peak_y = y_of(static_cast<double>((total(curve_.peak().bytes) + besides()).value()));
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(colors.text, 1.5));
  painter.setBrush(colors.background);
  painter.drawEllipse(QPointF(peak_x, peak_y), 4, 4);
  painter.setRenderHint(QPainter::Antialiasing, false);
}

void MemoryView::paint_legend(QPainter& painter, const Theme& colors) const {
  const DeviceReport& device = session_.detail()->prediction.report.devices[session_.device()];
  painter.setPen(colors.text);
  painter.drawText(QRect(8, 0, kTimeGutter - 8, Legend::kLine), Qt::AlignVCenter,
                   QString("memory, device %1").arg(device.device.index()));
  for (std::size_t i = 0; i < shown_.size(); ++i) {
    painter.fillRect(legend_.mark(i, 0), colors.memory[shown_[i]]);
    legend_.paint_name(painter, i, 0);
  }
  painter.setPen(colors.dim);
  // The peak has no mark.
  QRect peak = legend_.name(shown_.size(), 0);
  peak.setLeft(legend_.mark(shown_.size(), 0).left());
  painter.drawText(peak, Qt::AlignVCenter, words_of_peak(device));
}

void MemoryView::mouseMoveEvent(QMouseEvent* event) {
  const QRect area = plot();
  if (curve_.empty() || !session_.detail() || !area.contains(event->pos())) return;
  const auto time = session_.time().time_at(event->pos().x() - area.left(), area.width());
  const double seconds = static_cast<double>(time) / 1e9;
  const MemorySample& sample = curve_.fullest(seconds, seconds);
  std::string text =
      fmt::format("{} in buffers at {}", to_text(total(sample.bytes)), moment_text(time, 1e3));
  for (std::size_t i = 0; i < kComponents; ++i) {
    if (sample.bytes[i] == 0_B) continue;
    text += fmt::format("\n{}: {}", to_text(static_cast<Component>(i)), to_text(sample.bytes[i]));
  }
  QToolTip::showText(event->globalPosition().toPoint(), QString::fromStdString(text), this);
}

// The moment whose buffers are listed.
void MemoryView::mousePressEvent(QMouseEvent* event) {
  const QRect area = plot();
  if (!session_.detail() || !area.contains(event->pos())) return;
  const auto time = session_.time().time_at(event->pos().x() - area.left(), area.width());
  session_.choose_moment(Seconds(static_cast<double>(time) / 1e9));
}

}  // namespace meshwright

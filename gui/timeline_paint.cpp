// How the timeline looks; what is done with it is in timeline_view.cpp.
#include <fmt/format.h>

#include <QPainter>
#include <algorithm>
#include <cmath>

#include "gui/ticks.h"
#include "gui/timeline_view.h"

namespace meshwright {

void paint_time_ruler(QPainter& painter, const QRect& area, const TimeAxis& axis,
                      const Theme& theme, int bottom) {
  const auto from = static_cast<double>(axis.start);
  const Ticks ticks = round_ticks(from, from + static_cast<double>(axis.length),
                                  static_cast<std::size_t>(std::max(1, area.width() / 110)));
  for (std::size_t i = 0; i < ticks.count; ++i) {
    const auto time = std::llround(ticks.at(i));
    const double x = area.left() + axis.pixel_of(time, area.width());
    painter.setPen(theme.grid);
    painter.drawLine(QPointF(x, area.bottom() - 4), QPointF(x, bottom));
    painter.setPen(theme.dim);
    const bool first = x < area.left() + 24;
    painter.drawText(QRectF(first ? x : x - 60, area.top(), 120, area.height() - 4),
                     (first ? Qt::AlignLeft : Qt::AlignHCenter) | Qt::AlignVCenter,
                     QString::fromStdString(moment_text(time, ticks.step)));
  }
}

void TimelineView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Theme& colors = theme(session_.dark());
  painter.fillRect(rect(), colors.background);
  if (sections_.empty()) {
    painter.setPen(colors.dim);
    painter.drawText(rect(), Qt::AlignCenter, "The step of the selected plan is shown here");
    return;
  }
  paint_sections(painter);
  paint_ruler(painter);
  paint_overview(painter);
  paint_marks(painter);
}

void TimelineView::paint_overview(QPainter& painter) {
  const Theme& colors = theme(session_.dark());
  const QRect area(kTimeGutter, 2, lanes_area().width(), kOverviewHeight - 4);
  const TimelineLanes& lanes = *sections_.front().lanes;
  if (overview_.isNull()) {
    overview_ = QImage(area.size(), QImage::Format_RGB32);
    overview_.fill(colors.stripe.rgb());
    std::vector<QRgb> line(static_cast<std::size_t>(area.width()));
    std::vector<const TimelineLane*> computing;
    for (const TimelineLane& lane : lanes.lanes) {
      if (lane.computes) computing.push_back(&lane);
    }
    const auto rows = static_cast<int>(std::min<std::size_t>(computing.size(), 6));
    for (int r = 0; r < rows; ++r) {
      const auto pick =
          static_cast<std::size_t>(r) * computing.size() / static_cast<std::size_t>(rows);
      paint_lane(line, *computing[pick], {0, end()}, colors, colors.stripe.rgb());
      const int first = r * area.height() / rows, last = (r + 1) * area.height() / rows;
      for (int y = first; y < last; ++y) {
        std::ranges::copy(line, reinterpret_cast<QRgb*>(overview_.scanLine(y)));
      }
    }
  }
  painter.drawImage(area.topLeft(), overview_);
  const TimeAxis whole{0, end()}, axis = session_.time();
  const double left = area.left() + whole.pixel_of(axis.start, area.width());
  const double right = area.left() + whole.pixel_of(axis.start + axis.length, area.width());
  QColor veil = colors.background;
  veil.setAlpha(150);
  painter.fillRect(QRectF(area.left(), area.top(), left - area.left(), area.height()), veil);
  painter.fillRect(QRectF(right, area.top(), area.right() + 1 - right, area.height()), veil);
  painter.setPen(colors.text);
  painter.drawRect(QRectF(left, area.top(), std::max(2.0, right - left - 1), area.height() - 1));
  painter.setPen(colors.dim);
  painter.drawText(QRect(8, 0, kTimeGutter - 16, kOverviewHeight), Qt::AlignVCenter, "whole step");
}

void TimelineView::paint_ruler(QPainter& painter) {
  const Theme& colors = theme(session_.dark());
  const QRect area(kTimeGutter, kOverviewHeight, lanes_area().width(), kRulerHeight);
  painter.fillRect(QRect(0, 0, width(), kOverviewHeight + kRulerHeight), colors.background);
  paint_time_ruler(painter, area, session_.time(), colors, area.bottom());
  painter.setPen(colors.grid);
  painter.drawLine(0, area.bottom(), width(), area.bottom());
}

void TimelineView::paint_sections(QPainter& painter) {
  const Theme& colors = theme(session_.dark());
  const QRect area = lanes_area();
  for (const Section& section : sections_) {
    const int top = area.top() + section.top - scroll_;
    const int first = std::max(area.top(), top);
    const int last = std::min(area.bottom() + 1, top + section.layout.height);
    if (sections_.size() > 1) {
      painter.setPen(colors.text);
      painter.drawText(QRect(8, top - kTitleHeight, width() - 16, kTitleHeight), Qt::AlignVCenter,
                       section.title);
    }
    if (first >= last) continue;
    const QSize size(area.width(), last - first);
    if (picture_.size() != size) picture_ = QImage(size, QImage::Format_RGB32);
    const LanePainting painting{*section.lanes, section.layout, session_.time(), colors,
                                first - top};
    paint_lanes(picture_, painting);
    painter.drawImage(QPoint(area.left(), first), picture_);
    const QRect shown(area.left(), first, area.width(), last - first);
    painter.setClipRect(shown);
    paint_labels(painter, painting, shown);
    painter.setClipping(false);
    paint_names(painter, section, QRect(0, first, kTimeGutter, last - first));
  }
}

void TimelineView::paint_names(QPainter& painter, const Section& section, const QRect& area) {
  const Theme& colors = theme(session_.dark());
  const int top = lanes_area().top() + section.top - scroll_;
  const QFontMetrics metrics = painter.fontMetrics();
  int free_from = area.top() - 1;
  painter.setClipRect(area);
  for (const LanePlace& place : section.layout.lanes) {
    const TimelineLane& lane = section.lanes->lanes[place.lane];
    const int y = top + place.top;
    if (y + place.height < area.top() || y > area.bottom()) continue;
    // Names that would run into each other are left out.
    const int middle = y + place.height / 2;
    if (middle - metrics.height() / 2 < free_from) continue;
    const QRect line(8, middle - 10, kTimeGutter - 16, 20);
    const TimelineDevice& device = section.lanes->devices[lane.device];
    if (lane.computes) {
      painter.setPen(colors.text);
      const QString count = device.count > 1 ? QString("  \u00d7%1").arg(device.count) : QString();
      painter.drawText(line, Qt::AlignVCenter, QString::fromStdString(device.name) + count);
    } else {
      painter.setPen(colors.dim);
      painter.drawText(
          line, Qt::AlignVCenter | Qt::AlignRight,
          metrics.elidedText(QString::fromStdString(lane.name), Qt::ElideMiddle, kTimeGutter - 30));
    }
    free_from = middle + metrics.height() / 2 - 2;
  }
  painter.setClipping(false);
}

void TimelineView::paint_marks(QPainter& painter) {
  const Theme& colors = theme(session_.dark());
  const QRect area = lanes_area();
  const TimeAxis axis = session_.time();
  const auto x_of = [&](std::int64_t time) {
    return area.left() + axis.pixel_of(time, area.width());
  };
  painter.setClipRect(QRect(area.left(), kOverviewHeight, area.width() + 1, height()));
  for (const Section& section : sections_) {
    const double x = x_of(section.lanes->step);
    painter.setPen(QPen(colors.limit, 1, Qt::DashLine));
    painter.drawLine(QPointF(x, area.top()), QPointF(x, height()));
  }
  if (measured_) {
    QColor veil = colors.accent;
    veil.setAlpha(40);
    const double from = x_of(measured_->first), to = x_of(measured_->second);
    painter.fillRect(QRectF(from, area.top(), to - from, area.height()), veil);
    painter.setPen(colors.accent);
    painter.drawText(QRectF(from + 4, kOverviewHeight, 300, kRulerHeight - 4), Qt::AlignVCenter,
                     QString::fromStdString(duration_text(measured_->second - measured_->first)));
  }
  if (const TimedTask* task = task_of(selected_)) {
    const Section& section = sections_[selected_->section];
    const auto place = std::ranges::find(section.layout.lanes, selected_->lane, &LanePlace::lane);
    if (place != section.layout.lanes.end()) {
      const double from = x_of(task->start), to = x_of(task->finish);
      painter.setPen(QPen(colors.text, 2));
      painter.drawRect(QRectF(from, area.top() + section.top + place->top - scroll_,
                              std::max(2.0, to - from), place->height));
    }
  }
  if (cursor_) {
    painter.setPen(QPen(colors.dim, 1, Qt::DotLine));
    const double x = x_of(*cursor_);
    painter.drawLine(QPointF(x, kOverviewHeight), QPointF(x, height()));
  }
  painter.setClipping(false);
}

}  // namespace meshwright

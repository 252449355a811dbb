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
  if (sections_.empty()) {
    painter.fillRect(rect(), colors.background);
    painter.setPen(colors.dim);
    painter.drawText(rect(), Qt::AlignCenter, "The step of the selected plan is shown here");
    return;
  }
  paint_sections(painter);
  paint_ruler(painter);
  paint_overview(painter);
  paint_marks(painter);
  paint_legend(painter);
}

void TimelineView::paint_overview(QPainter& painter) {
  const Theme& colors = theme(session_.dark());
  const QRect area(kTimeGutter, 2, lanes_area().width(), kOverviewHeight - 4);
  const TimelineLanes& lanes = *sections_.front().lanes;
  if (overview_.isNull()) {
    overview_ = QImage(area.size() * devicePixelRatioF(), QImage::Format_RGB32);
    overview_.setDevicePixelRatio(devicePixelRatioF());
    overview_.fill(colors.stripe.rgb());
    std::vector<QRgb> line(static_cast<std::size_t>(overview_.width()));
    std::vector<const TimelineLane*> computing;
    for (const TimelineLane& lane : lanes.lanes) {
      if (lane.computes) computing.push_back(&lane);
    }
    const auto rows = static_cast<int>(std::min<std::size_t>(computing.size(), 6));
    for (int r = 0; r < rows; ++r) {
      const auto pick =
          static_cast<std::size_t>(r) * computing.size() / static_cast<std::size_t>(rows);
      paint_lane(line, *computing[pick], {0, end()}, colors, colors.stripe.rgb());
      const int first = r * overview_.height() / rows, last = (r + 1) * overview_.height() / rows;
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
  const QRect area = lanes_area(), pinned = pinned_area();
  // Lanes are opaque: only what is beside, between and below them is filled.
  painter.fillRect(QRect(0, 0, area.left(), height()), colors.background);
  painter.fillRect(QRect(area.right() + 1, 0, width(), height()), colors.background);
  int filled = area.top();
  for (const Section& section : sections_) {
    const int top = area.top() + section.top - scroll_;
    painter.fillRect(QRect(area.left(), filled, area.width(), top - filled), colors.background);
    filled = std::max(filled, top + section.layout.height);
    if (sections_.size() > 1) {
      painter.setPen(colors.text);
      painter.drawText(QRect(8, top - kTitleHeight, width() - 16, kTitleHeight), Qt::AlignVCenter,
                       section.title);
    }
    paint_layout(painter, section, section.layout, top, area);
  }
  painter.fillRect(QRect(area.left(), filled, area.width(), height() - filled), colors.background);
  if (pinned.height() == 0) return;
  painter.fillRect(QRect(0, pinned.top(), width(), pinned.height()), colors.background);
  for (const Section& section : sections_) {
    paint_layout(painter, section, section.pinned, pinned.top() + section.pinned_top,
                 pinned.adjusted(0, 0, 0, -4));
  }
  painter.setPen(QPen(colors.dim, 1));
  painter.drawLine(0, pinned.bottom() - 1, width(), pinned.bottom() - 1);
}

// What of it is within `clip`.
void TimelineView::paint_layout(QPainter& painter, const Section& section, const LaneLayout& layout,
                                int top, const QRect& clip) {
  const int first = std::max(clip.top(), top);
  const int last = std::min(clip.bottom() + 1, top + layout.height);
  if (first >= last) return;
  const double scale = devicePixelRatioF();
  const QRect shown(clip.left(), first, clip.width(), last - first);
  const QSize size(static_cast<int>(std::lround(shown.width() * scale)),
                   static_cast<int>(std::lround(shown.height() * scale)));
  if (picture_.size() != size) picture_ = QImage(size, QImage::Format_RGB32);
  picture_.setDevicePixelRatio(scale);
  const FoundTasks* found = session_.found().get();
  const TimelineLanes* matching = !found              ? nullptr
                                  : section.predicted ? &found->predicted
                                                      : &found->traced;
  const LanePainting painting{*section.lanes, layout, session_.time(), theme(session_.dark()),
                              first - top,    scale,  matching};
  paint_lanes(picture_, painting);
  painter.drawImage(shown.topLeft(), picture_);
  painter.setClipRect(shown);
  if (!matching) paint_labels(painter, picture_, painting, shown, numbers_);
  painter.setClipping(false);
  paint_names(painter, section, layout, top, QRect(0, first, kTimeGutter, last - first));
}

void TimelineView::paint_names(QPainter& painter, const Section& section, const LaneLayout& layout,
                               int top, const QRect& area) {
  const Theme& colors = theme(session_.dark());
  constexpr int kSmallest = 9;  // pixels of letters that can be read
  const QFont usual = painter.font();
  QFont small = usual;
  small.setPixelSize(kSmallest);
  names_.use(usual);
  small_names_.use(small);
  const int usual_height = QFontMetrics(usual).height();
  const int small_height = QFontMetrics(small).height();
  int free_from = area.top() - 1;
  painter.setClipRect(area);
  for (const LanePlace& place : layout.lanes) {
    const TimelineLane& lane = section.lanes->lanes[place.lane];
    const int y = top + place.top;
    if (y + place.height < area.top() || y > area.bottom()) continue;
    const bool is_head = lane.computes && place.member == 0;
    const bool is_small = !is_head && place.height < usual_height - 3;
    const int text_height = is_small ? small_height : usual_height;
    // Names that would run into each other are left out.
    const int middle = y + place.height / 2;
    if (middle - text_height / 2 < free_from) continue;
    const TimelineDevice& device = section.lanes->devices[lane.device];
    const auto& folded = section.folds.folded;
    const bool is_folded = lane.device < folded.size() && folded[lane.device];
    QString name = QString::fromStdString(name_beside(*section.lanes, place));
    if (is_head && device.lane_count > 1) name = (is_folded ? "\u25b8 " : "\u25be ") + name;
    const QStaticText& text = (is_small ? small_names_ : names_).of(name, kTimeGutter - 18);
    const double left = is_head ? 8 : kTimeGutter - 8 - text.size().width();
    painter.setFont(is_small ? small : usual);
    painter.setPen(is_head ? colors.text : colors.dim);
    painter.drawStaticText(QPointF(left, middle - text.size().height() / 2), text);
    free_from = middle + text_height / 2 - 2;
  }
  painter.setFont(usual);
  painter.setClipping(false);
}

// What the colours mean, of those that the lanes have.
void TimelineView::paint_legend(QPainter& painter) {
  const Theme& colors = theme(session_.dark());
  const int top = height() - legend_.height();
  painter.fillRect(QRect(0, top, width(), legend_.height()), colors.background);
  painter.setPen(colors.text);
  std::size_t entry = 0;
  for (std::size_t i = 0; i < kHues; ++i) {
    if (!hues_[i]) continue;
    fill_hue(painter, legend_.mark(entry, top), colors, static_cast<Hue>(i));
    legend_.paint_name(painter, entry++, top);
  }
}

// Duration, and what its device does in it once that is known.
QString TimelineView::words_of_range() const {
  const auto& range = measured_ ? measured_ : session_.range();
  std::string text = duration_text(range->to - range->from);
  const auto& times = session_.range_times();
  if (!measured_ && times) {
    const TimeShares shares = shares_of(*times);
    text += fmt::format("   computes {:.1f} %, exposed {:.1f} %, idle {:.1f} %",
                        100 * shares.computing, 100 * shares.exposed, 100 * shares.idle);
  }
  return QString::fromStdString(text);
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
  if (const auto& range = measured_ ? measured_ : session_.range()) {
    QColor veil = colors.accent;
    veil.setAlpha(40);
    const double from = x_of(range->from), to = x_of(range->to);
    const QRectF stretch(from, kOverviewHeight + kRulerHeight, to - from, height());
    painter.fillRect(stretch, veil);
    const QString words = words_of_range();
    const double wide = painter.fontMetrics().horizontalAdvance(words) + 12;
    const double left =
        std::clamp<double>(from, area.left(), std::max<double>(area.left(), area.right() - wide));
    const QRectF box(left, kOverviewHeight + 1, wide, kRulerHeight - 3);
    painter.fillRect(box, colors.accent);
    painter.setPen(colors.accent_text);
    painter.drawText(box, Qt::AlignCenter, words);
  }
  paint_selected(painter);
  if (cursor_) {
    painter.setPen(QPen(colors.dim, 1, Qt::DotLine));
    const double x = x_of(*cursor_);
    painter.drawLine(QPointF(x, kOverviewHeight), QPointF(x, height()));
  }
  painter.setClipping(false);
}

void TimelineView::paint_selected(QPainter& painter) {
  const TimedTask* task = task_of(selected_);
  if (!task) return;
  const QRect area = lanes_area();
  const Section& section = sections_[selected_->section];
  const auto place = std::ranges::find(section.layout.lanes, selected_->lane, &LanePlace::lane);
  if (place == section.layout.lanes.end()) return;
  const double from = area.left() + session_.time().pixel_of(task->start, area.width());
  const double to = area.left() + session_.time().pixel_of(task->finish, area.width());
  painter.setPen(QPen(theme(session_.dark()).text, 2));
  painter.setBrush(Qt::NoBrush);
  painter.drawRect(QRectF(from, area.top() + section.top + place->top - scroll_,
                          std::max(2.0, to - from), place->height));
}

}  // namespace meshwright

#include "gui/timeline_view.h"

#include <fmt/format.h>

#include <QMouseEvent>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "gui/ticks.h"

namespace meshwright {
namespace {

constexpr int kLeastLane = 2, kMostLane = 60, kUsualLane = 16;
constexpr double kGapShare = 0.01;  // of the step, that a gap has at least

}  // namespace

TimelineView::TimelineView(GuiSession& session, QWidget* parent)
    : QWidget(parent), session_(session) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAttribute(Qt::WA_OpaquePaintEvent);
  setAccessibleName("Timeline of the step");
  connect(&session, &GuiSession::detail_changed, this, [this] { load(); });
  connect(&session, &GuiSession::traced_changed, this, [this] { load(); });
  connect(&session, &GuiSession::time_changed, this, [this] { update(); });
  connect(&session, &GuiSession::theme_changed, this, [this] {
    overview_ = {};
    update();
  });
  load();
}

void TimelineView::load() {
  sections_.clear();
  selected_.reset();
  hovered_.reset();
  measured_.reset();
  earlier_.clear();
  overview_ = {};
  scroll_ = 0;
  if (session_.detail()) {
    sections_.push_back({QString::fromStdString("predicted: " + session_.detail()->name),
                         &session_.detail()->lanes,
                         {},
                         0});
  }
  if (session_.traced()) {
    sections_.push_back({QString::fromStdString("trace: " + session_.traced()->name),
                         &session_.traced()->lanes,
                         {},
                         0});
  }
  suit_lane_size();
  lay_out();
}

// Few lanes are drawn higher, so that they are easily read.
void TimelineView::suit_lane_size() {
  std::size_t lanes = 1;
  for (const Section& section : sections_) lanes += section.lanes->lanes.size();
  constexpr int kHighest = 30;
  lane_size_ = std::clamp(lanes_area().height() / static_cast<int>(lanes), kUsualLane, kHighest);
}

void TimelineView::lay_out() {
  int y = 0;
  for (Section& section : sections_) {
    section.layout = lay_out_lanes(*section.lanes, lane_size_, {});
    if (sections_.size() > 1) y += kTitleHeight;
    section.top = y;
    y += section.layout.height;
  }
  content_ = y;
  set_scroll(scroll_);
}

std::int64_t TimelineView::end() const {
  std::int64_t latest = 1;
  for (const Section& section : sections_) latest = std::max(latest, section.lanes->end);
  return latest;
}

QRect TimelineView::lanes_area() const {
  const int top = kOverviewHeight + kRulerHeight;
  return {kTimeGutter, top, std::max(1, width() - kTimeGutter - 8), std::max(1, height() - top)};
}

std::optional<TimelineView::Spot> TimelineView::spot_at(const QPoint& point) const {
  const QRect area = lanes_area();
  if (point.y() < area.top()) return std::nullopt;
  const int y = point.y() - area.top() + scroll_;
  for (std::size_t s = 0; s < sections_.size(); ++s) {
    const auto lane = lane_at(sections_[s].layout, y - sections_[s].top);
    if (!lane) continue;
    Spot spot{s, *lane, std::nullopt};
    if (point.x() >= area.left()) {
      const auto time = session_.time().time_at(point.x() - area.left(), area.width());
      spot.task = task_at(sections_[s].lanes->lanes[*lane], time);
    }
    return spot;
  }
  return std::nullopt;
}

const TimedTask* TimelineView::task_of(const std::optional<Spot>& spot) const {
  if (!spot || !spot->task) return nullptr;
  return &sections_[spot->section].lanes->lanes[spot->lane].tasks[*spot->task];
}

QString TimelineView::words_of(const Spot& spot) const {
  const TimelineLane& lane = sections_[spot.section].lanes->lanes[spot.lane];
  const TimelineDevice& device = sections_[spot.section].lanes->devices[lane.device];
  const TimedTask* task = task_of(spot);
  std::string text = fmt::format("{}, {}", device.name, lane.name);
  if (!task) return QString::fromStdString(text + ": idle");
  const TracedTask traced = session_.task_named(spot.section == 0 && session_.detail() != nullptr,
                                                lane.device, task->task);
  text = fmt::format("{}\n{} from {}{}{}", traced.name, duration_text(task->finish - task->start),
                     moment_text(task->start, 1e3),
                     traced.microbatch ? fmt::format(", micro-batch {}", *traced.microbatch) : "",
                     traced.recompute ? ", computed again" : "");
  text += fmt::format("\n{}, {}", traced.kind, to_text(traced.bytes));
  if (traced.flops > 0) text += fmt::format(", {}", to_text(Flops(traced.flops)));
  if (!traced.group.empty()) text += fmt::format(", among {} devices", traced.group.size());
  return QString::fromStdString(text + fmt::format("\n{}, {}", device.name, lane.name));
}

void TimelineView::look_at(const TimeAxis& axis) {
  constexpr std::size_t kMostEarlier = 100;
  if (axis == session_.time()) return;
  earlier_.push_back(session_.time());
  if (earlier_.size() > kMostEarlier) earlier_.erase(earlier_.begin());
  session_.set_time(axis);
}

void TimelineView::look_back() {
  if (earlier_.empty()) return;
  session_.set_time(earlier_.back());
  earlier_.pop_back();
}

void TimelineView::zoom(double factor) {
  const QRect area = lanes_area();
  const double at = cursor_ ? session_.time().pixel_of(*cursor_, 1.0) : 0.5;
  look_at(zoomed(session_.time(), factor, std::clamp(at, 0.0, 1.0), end()));
  if (area.isEmpty()) return;
}

void TimelineView::step_task(int by) {
  if (!selected_ || !selected_->task) return;
  const auto& tasks = sections_[selected_->section].lanes->lanes[selected_->lane].tasks;
  const auto next = static_cast<std::int64_t>(*selected_->task) + by;
  if (next < 0 || next >= static_cast<std::int64_t>(tasks.size())) return;
  selected_->task = static_cast<std::size_t>(next);
  const TimedTask& task = *task_of(selected_);
  TimeAxis axis = session_.time();
  if (task.start < axis.start || task.finish > axis.start + axis.length) {
    axis.start = (task.start + task.finish) / 2 - axis.length / 2;
    session_.set_time(within(axis, end()));
  }
  update();
}

// The next stretch in which the lane that is selected, or the first, does nothing.
void TimelineView::find_gap(int direction) {
  if (sections_.empty() || sections_[0].lanes->lanes.empty()) return;
  const Spot spot = selected_.value_or(Spot{0, 0, std::nullopt});
  const TimelineLanes& lanes = *sections_[spot.section].lanes;
  const auto& tasks = lanes.lanes[spot.lane].tasks;
  const auto least = static_cast<std::int64_t>(kGapShare * static_cast<double>(lanes.step));
  const TimeAxis axis = session_.time();
  const std::int64_t middle = axis.start + axis.length / 2;
  std::optional<std::pair<std::int64_t, std::int64_t>> found;
  for (std::size_t i = 1; i < tasks.size(); ++i) {
    const std::int64_t from = tasks[i - 1].finish, to = tasks[i].start;
    const std::int64_t at = (from + to) / 2;
    if (to - from < least || at == middle || (at > middle) != (direction > 0)) continue;
    if (!found || direction < 0) found = {from, to};
    if (direction > 0) break;
  }
  if (!found) return;
  measured_ = found;
  look_at(within({(found->first + found->second) / 2 - axis.length / 2, axis.length}, end()));
  update();
}

void TimelineView::fit_selected() {
  const TimedTask* task = task_of(selected_);
  if (!task) return;
  const TimeAxis axis = session_.time();
  const std::int64_t middle = (task->start + task->finish) / 2;
  const bool centred = std::abs(middle - axis.start - axis.length / 2) <= axis.length / 100 + 1;
  const std::int64_t length =
      centred ? std::max<std::int64_t>(20, (task->finish - task->start) * 3) : axis.length;
  look_at(within({middle - length / 2, length}, end()));
}

void TimelineView::set_scroll(int scroll) {
  scroll_ = std::clamp(scroll, 0, std::max(0, content_ - lanes_area().height()));
  update();
}

void TimelineView::set_lane_size(int size) {
  lane_size_ = std::clamp(size, kLeastLane, kMostLane);
  lay_out();
}

void TimelineView::resizeEvent(QResizeEvent*) {
  overview_ = {};
  set_scroll(scroll_);
}

void TimelineView::wheelEvent(QWheelEvent* event) {
  const double turns = (event->angleDelta().y() + event->angleDelta().x()) / 120.0;
  const QRect area = lanes_area();
  if (event->modifiers() & Qt::ControlModifier) {
    const double at = std::clamp((event->position().x() - area.left()) / area.width(), 0.0, 1.0);
    look_at(zoomed(session_.time(), std::pow(0.8, turns), at, end()));
  } else if (event->modifiers() & Qt::ShiftModifier) {
    look_at(moved(session_.time(), -0.1 * turns, end()));
  } else {
    set_scroll(scroll_ - static_cast<int>(turns * 48));
  }
  event->accept();
}

void TimelineView::mousePressEvent(QMouseEvent* event) {
  drag_from_ = event->pos();
  drag_axis_ = session_.time();
  const bool pan = event->button() == Qt::MiddleButton || (event->modifiers() & Qt::ShiftModifier);
  drag_ = event->pos().y() < kOverviewHeight ? Drag::Overview : pan ? Drag::Pan : Drag::Measure;
  if (drag_ == Drag::Overview) mouseMoveEvent(event);
}

void TimelineView::mouseMoveEvent(QMouseEvent* event) {
  const QRect area = lanes_area();
  const double x = std::clamp<double>(event->pos().x() - area.left(), 0, area.width());
  cursor_ = session_.time().time_at(x, area.width());
  if (drag_ == Drag::Overview) {
    TimeAxis axis = session_.time();
    axis.start = TimeAxis{0, end()}.time_at(x, area.width()) - axis.length / 2;
    session_.set_time(within(axis, end()));
  } else if (drag_ == Drag::Pan) {
    const double by = static_cast<double>(drag_from_.x() - event->pos().x()) / area.width();
    session_.set_time(moved(drag_axis_, by, end()));
  } else if (drag_ == Drag::Measure && (event->pos() - drag_from_).manhattanLength() > 4) {
    const double from = std::clamp<double>(drag_from_.x() - area.left(), 0, area.width());
    const auto a = session_.time().time_at(from, area.width());
    measured_ = std::minmax(a, *cursor_);
  } else {
    hovered_ = spot_at(event->pos());
    const bool shown = hovered_ && hovered_->task;
    QToolTip::showText(event->globalPosition().toPoint(), shown ? words_of(*hovered_) : QString(),
                       this);
  }
  update();
}

void TimelineView::mouseReleaseEvent(QMouseEvent* event) {
  const bool clicked = (event->pos() - drag_from_).manhattanLength() <= 4;
  if (drag_ == Drag::Pan && drag_axis_ != session_.time()) earlier_.push_back(drag_axis_);
  if (drag_ == Drag::Measure && clicked) {
    measured_.reset();
    selected_ = spot_at(event->pos());
    if (selected_ && selected_->section == 0 && session_.detail()) {
      session_.set_device(sections_[0].lanes->lanes[selected_->lane].device);
    }
  }
  drag_ = Drag::None;
  update();
}

void TimelineView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (event->pos().y() < kOverviewHeight + kRulerHeight) return look_at({0, end()});
  selected_ = spot_at(event->pos());
  fit_selected();
  fit_selected();
}

void TimelineView::leaveEvent(QEvent*) {
  cursor_.reset();
  update();
}

void TimelineView::keyPressEvent(QKeyEvent* event) {
  const TimeAxis axis = session_.time();
  const bool control = event->modifiers() & Qt::ControlModifier;
  switch (event->key()) {
    case Qt::Key_W:
      return zoom(0.7);
    case Qt::Key_S:
      return zoom(1 / 0.7);
    case Qt::Key_A:
      return look_at(moved(axis, -0.15, end()));
    case Qt::Key_D:
      return look_at(moved(axis, 0.15, end()));
    case Qt::Key_Left:
      return look_at(moved(axis, control ? -0.5 : -0.1, end()));
    case Qt::Key_Right:
      return look_at(moved(axis, control ? 0.5 : 0.1, end()));
    case Qt::Key_Up:
      return set_scroll(scroll_ - 24);
    case Qt::Key_Down:
      return set_scroll(scroll_ + 24);
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      return set_lane_size(lane_size_ + std::max(1, lane_size_ / 5));
    case Qt::Key_Minus:
      return set_lane_size(lane_size_ - std::max(1, lane_size_ / 5));
    case Qt::Key_0:
      if (control) return set_lane_size(kUsualLane);
      return look_at({0, end()});
    case Qt::Key_Home:
      return look_at({0, end()});
    case Qt::Key_F:
      return fit_selected();
    case Qt::Key_Z:
      if (measured_) {
        look_at(within({measured_->first, measured_->second - measured_->first}, end()));
      }
      return;
    case Qt::Key_Backspace:
      return look_back();
    case Qt::Key_Period:
      return step_task(1);
    case Qt::Key_Comma:
      return step_task(-1);
    case Qt::Key_N:
      return find_gap(event->modifiers() & Qt::ShiftModifier ? -1 : 1);
    case Qt::Key_Escape:
      measured_.reset();
      selected_.reset();
      return update();
    default:
      QWidget::keyPressEvent(event);
  }
}

}  // namespace meshwright

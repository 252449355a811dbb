#include "gui/timeline_view.h"

#include <fmt/format.h>

#include <QMouseEvent>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "gui/ticks.h"

namespace meshwright {
namespace {

constexpr int kUsualLane = 16;
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
  connect(&session, &GuiSession::range_changed, this, [this] { update(); });
  connect(&session, &GuiSession::pins_changed, this, [this] { lay_out(); });
  connect(&session, &GuiSession::found_changed, this, [this] {
    if (matches_changed) matches_changed();
    update();
  });
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
  before_click_.reset();
  drag_spot_.reset();
  drag_ = Drag::None;
  earlier_.clear();
  overview_ = {};
  scroll_ = 0;
  const auto add = [this](const std::string& title, bool predicted, const TimelineLanes& lanes) {
    Section& section = sections_.emplace_back();
    section.title = QString::fromStdString(title);
    section.predicted = predicted;
    section.lanes = &lanes;
    for (std::size_t i = 0; i < kHues; ++i) hues_[i] = hues_[i] || lanes.hues[i];
  };
  hues_ = {};
  if (const auto& detail = session_.detail())
    add("predicted: " + detail->name, true, detail->lanes);
  if (const auto& traced = session_.traced()) add("trace: " + traced->name, false, traced->lanes);
  lay_out_legend();
  suit_lane_size();
  lay_out();
}

// Below the lanes where there is room for it in one line, else below their names, too.
void TimelineView::lay_out_legend() {
  QStringList names;
  for (std::size_t i = 0; i < kHues; ++i) {
    if (hues_[i]) names += to_text(static_cast<Hue>(i));
  }
  legend_ = Legend(names, fontMetrics(), kTimeGutter, 8, width());
}

// As high as there is room for, so that they are easily read, unless a person chose.
void TimelineView::suit_lane_size() {
  if (size_chosen_) return;
  constexpr int kHighest = 30;
  for (lane_size_ = kHighest; lane_size_ > kUsualLane; --lane_size_) {
    int height = sections_.size() > 1 ? static_cast<int>(sections_.size()) * kTitleHeight : 0;
    for (const Section& section : sections_) {
      height += lay_out_lanes(*section.lanes, lane_size_, section.folds).height;
    }
    if (height <= lanes_area().height()) return;
  }
}

void TimelineView::lay_out() {
  int y = 0, pinned = 0;
  for (Section& section : sections_) {
    section.layout = lay_out_lanes(*section.lanes, lane_size_, section.folds);
    section.pinned = lay_out_pinned(*section.lanes, lane_size_, session_.pinned());
    section.pinned_top = pinned;
    pinned += section.pinned.height;
    if (sections_.size() > 1) y += kTitleHeight;
    section.top = y;
    y += section.layout.height;
  }
  content_ = y;
  // What is pinned leaves room for the rest.
  constexpr int kBelowPinned = 6;
  pinned_height_ =
      pinned == 0 ? 0 : std::min(pinned + kBelowPinned, std::max(0, height() * 2 / 3 - 60));
  set_scroll(scroll_);
}

QRect TimelineView::pinned_area() const {
  return {kTimeGutter, kOverviewHeight + kRulerHeight, std::max(1, width() - kTimeGutter - 8),
          pinned_height_};
}

QRect TimelineView::lanes_area() const {
  const QRect pinned = pinned_area();
  const int top = pinned.top() + pinned.height();
  return {pinned.left(), top, pinned.width(), std::max(1, height() - top - legend_.height())};
}

std::optional<TimelineView::Drawn> TimelineView::drawn_at(int y) const {
  const QRect area = lanes_area();
  const bool pinned = y < area.top();
  if (y < pinned_area().top() || y > area.bottom()) return std::nullopt;
  for (std::size_t s = 0; s < sections_.size(); ++s) {
    const Section& section = sections_[s];
    const Drawn drawn{
        s, pinned ? &section.pinned : &section.layout,
        pinned ? pinned_area().top() + section.pinned_top : area.top() + section.top - scroll_};
    if (lane_at(*drawn.layout, y - drawn.top)) return drawn;
  }
  return std::nullopt;
}

std::optional<TimelineView::Spot> TimelineView::spot_at(const QPoint& point) const {
  const auto drawn = drawn_at(point.y());
  if (!drawn) return std::nullopt;
  const QRect area = lanes_area();
  Spot spot{drawn->section, *lane_at(*drawn->layout, point.y() - drawn->top), std::nullopt};
  if (point.x() >= area.left()) {
    const auto time = session_.time().time_at(point.x() - area.left(), area.width());
    spot.task = task_at(sections_[spot.section].lanes->lanes[spot.lane], time);
  }
  return spot;
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
  const TracedTask traced =
      session_.task_named(sections_[spot.section].predicted, lane.device, task->task);
  text = fmt::format("{}\n{} from {}{}{}", traced.name, duration_text(task->finish - task->start),
                     moment_text(task->start, 1e3),
                     traced.microbatch ? fmt::format(", micro-batch {}", *traced.microbatch) : "",
                     traced.recompute ? ", computed again" : "");
  text += fmt::format("\n{}, {}", traced.kind, to_text(traced.bytes));
  if (traced.flops > 0) text += fmt::format(", {}", to_text(Flops(traced.flops)));
  if (!traced.group.empty()) text += fmt::format(", among {} devices", traced.group.size());
  return QString::fromStdString(text + fmt::format("\n{}, {}", device.name, lane.name));
}

void TimelineView::resizeEvent(QResizeEvent*) {
  overview_ = {};
  lay_out_legend();
  suit_lane_size();
  lay_out();
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
  drag_spot_ = spot_at(event->pos());
  const bool pan = event->button() == Qt::MiddleButton || (event->modifiers() & Qt::ShiftModifier);
  drag_ = event->pos().y() < kOverviewHeight ? Drag::Overview : pan ? Drag::Pan : Drag::Measure;
  if (drag_ == Drag::Measure && event->pos().x() < kTimeGutter) {
    drag_ = Drag::None;
    if (drag_spot_) {
      toggle_fold(drag_spot_->section,
                  sections_[drag_spot_->section].lanes->lanes[drag_spot_->lane].device);
    }
  }
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
    if (sections_.empty() || sections_.front().lanes->devices.empty()) return;
    const double from = std::clamp<double>(drag_from_.x() - area.left(), 0, area.width());
    const auto a = session_.time().time_at(from, area.width());
    const auto [first, last] = std::minmax(a, *cursor_);
    measured_ = TimeRange{true, 0, first, last};
    if (drag_spot_) {
      const Section& section = sections_[drag_spot_->section];
      measured_->predicted = section.predicted;
      measured_->device = section.lanes->lanes[drag_spot_->lane].device;
    } else {
      measured_->predicted = sections_.front().predicted;
    }
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
    before_click_ = session_.range();
    session_.set_range(std::nullopt);
    selected_ = spot_at(event->pos());
    if (selected_ && sections_[selected_->section].predicted) {
      session_.set_device(sections_[selected_->section].lanes->lanes[selected_->lane].device);
    }
  } else if (drag_ == Drag::Measure && measured_ && measured_->to > measured_->from) {
    session_.set_range(measured_);
  }
  measured_.reset();
  drag_ = Drag::None;
  update();
}

void TimelineView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (event->pos().y() < kOverviewHeight + kRulerHeight) return look_at({0, end()});
  const QRect area = lanes_area();
  if (event->pos().x() < area.left()) return;
  const auto time = session_.time().time_at(event->pos().x() - area.left(), area.width());
  if (before_click_ && time >= before_click_->from && time <= before_click_->to) {
    session_.set_range(before_click_);
    return zoom_into_range();
  }
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
      return step_lane(-1);
    case Qt::Key_Down:
      return step_lane(1);
    case Qt::Key_PageUp:
      return set_scroll(scroll_ - lanes_area().height());
    case Qt::Key_PageDown:
      return set_scroll(scroll_ + lanes_area().height());
    case Qt::Key_P:
      return toggle_pin();
    case Qt::Key_E:
      return toggle_equals();
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      return set_lane_size(lane_size_ + std::max(1, lane_size_ / 5));
    case Qt::Key_Minus:
      return set_lane_size(lane_size_ - std::max(1, lane_size_ / 5));
    case Qt::Key_0:
      if (control) return reset_lane_size();
      return look_at({0, end()});
    case Qt::Key_Home:
      return look_at({0, end()});
    case Qt::Key_F:
      return fit_selected();
    case Qt::Key_Z:
      return zoom_into_range();
    case Qt::Key_Backspace:
      return look_back();
    case Qt::Key_Period:
      return step_task(1);
    case Qt::Key_Comma:
      return step_task(-1);
    case Qt::Key_N:
      return find_gap(event->modifiers() & Qt::ShiftModifier ? -1 : 1);
    case Qt::Key_Escape:
      session_.set_range(std::nullopt);
      selected_.reset();
      return update();
    default:
      QWidget::keyPressEvent(event);
  }
}

}  // namespace meshwright

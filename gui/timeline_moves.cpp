// How one gets about in the timeline; what events mean is in timeline_view.cpp.
#include <algorithm>
#include <cmath>

#include "gui/timeline_view.h"

namespace meshwright {
namespace {

constexpr int kLeastLane = 2, kMostLane = 60;
constexpr double kGapShare = 0.01;  // of the step, that a gap has at least

}  // namespace

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
  const double at = cursor_ ? session_.time().pixel_of(*cursor_, 1.0) : 0.5;
  look_at(zoomed(session_.time(), factor, std::clamp(at, 0.0, 1.0), end()));
}

void TimelineView::step_task(int by) {
  if (!selected_ || !selected_->task) return;
  const auto& tasks = sections_[selected_->section].lanes->lanes[selected_->lane].tasks;
  const auto next = static_cast<std::int64_t>(*selected_->task) + by;
  if (next < 0 || next >= static_cast<std::int64_t>(tasks.size())) return;
  selected_->task = static_cast<std::size_t>(next);
  show_task(*selected_);
}

// Moves the time that is looked at if the task is not in it.
void TimelineView::show_task(const Spot& spot) {
  const TimedTask& task = *task_of(spot);
  TimeAxis axis = session_.time();
  if (task.start < axis.start || task.finish > axis.start + axis.length) {
    axis.start = (task.start + task.finish) / 2 - axis.length / 2;
    session_.set_time(within(axis, end()));
  }
  update();
}

// Scrolls to the lane if it is not seen.
void TimelineView::show_lane(const Spot& spot) {
  const Section& section = sections_[spot.section];
  const auto place = std::ranges::find(section.layout.lanes, spot.lane, &LanePlace::lane);
  if (place == section.layout.lanes.end()) return;
  const int top = section.top + place->top, bottom = top + place->height;
  if (top < scroll_) set_scroll(top);
  if (bottom > scroll_ + lanes_area().height()) set_scroll(bottom - lanes_area().height());
}

// The lane above or below, at the moment of what is selected.
void TimelineView::step_lane(int by) {
  std::vector<Spot> lanes;
  for (std::size_t s = 0; s < sections_.size(); ++s) {
    for (const LanePlace& place : sections_[s].layout.lanes) {
      if (place.member == 0) lanes.push_back({s, place.lane, std::nullopt});
    }
  }
  if (lanes.empty()) return;
  const TimeAxis axis = session_.time();
  const TimedTask* before = task_of(selected_);
  const std::int64_t time = before ? (before->start + before->finish) / 2
                                   : cursor_.value_or(axis.start + axis.length / 2);
  const Spot now = selected_ ? Spot{selected_->section, selected_->lane, std::nullopt} : lanes[0];
  const auto found = std::ranges::find(lanes, now);
  auto index = found == lanes.end() ? 0 : found - lanes.begin();
  if (selected_) {
    index =
        std::clamp<std::ptrdiff_t>(index + by, 0, static_cast<std::ptrdiff_t>(lanes.size()) - 1);
  }
  Spot next = lanes[static_cast<std::size_t>(index)];
  const auto& tasks = sections_[next.section].lanes->lanes[next.lane].tasks;
  // Where the lane is idle then, the last task before.
  const auto after = std::ranges::upper_bound(tasks, time, {}, &TimedTask::start);
  next.task = after == tasks.begin() ? 0 : static_cast<std::size_t>(after - tasks.begin()) - 1;
  selected_ = next;
  show_lane(next);
  update();
}

void TimelineView::toggle_fold(std::size_t section, std::size_t device) {
  auto& folded = sections_[section].folds.folded;
  folded.resize(sections_[section].lanes->devices.size());
  folded[device] = !folded[device];
  lay_out();
}

// The devices that do the same as the one that is selected, or pointed at.
void TimelineView::toggle_equals() {
  const auto spot = selected_ ? selected_ : hovered_;
  if (!spot) return;
  Section& section = sections_[spot->section];
  auto& expanded = section.folds.expanded;
  expanded.resize(section.lanes->devices.size());
  const std::size_t device = section.lanes->lanes[spot->lane].device;
  expanded[device] = !expanded[device];
  lay_out();
}

void TimelineView::toggle_pin() {
  const auto spot = selected_ ? selected_ : hovered_;
  if (spot) session_.toggle_pin(lane_name(*sections_[spot->section].lanes, spot->lane));
}

void TimelineView::measure(std::size_t section, std::size_t device, std::int64_t from,
                           std::int64_t to) {
  session_.set_range(TimeRange{sections_[section].predicted, device, from, to});
}

void TimelineView::zoom_into_range() {
  const auto& range = session_.range();
  if (range) look_at(within({range->from, range->to - range->from}, end()));
}

std::size_t TimelineView::match_count() const {
  return session_.found() ? session_.found()->places.size() : 0;
}

void TimelineView::show_match(std::size_t index) {
  if (index >= match_count()) return;
  const FoundTasks::Place& place = session_.found()->places[index];
  const auto section = std::ranges::find(sections_, place.predicted, &Section::predicted);
  if (section == sections_.end()) return;
  const std::size_t device = section->lanes->lanes[place.lane].device;
  if (device < section->folds.folded.size() && section->folds.folded[device]) {
    toggle_fold(static_cast<std::size_t>(section - sections_.begin()), device);
  }
  selected_ = Spot{static_cast<std::size_t>(section - sections_.begin()), place.lane, place.task};
  show_lane(*selected_);
  show_task(*selected_);
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
  measure(spot.section, lanes.lanes[spot.lane].device, found->first, found->second);
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
  size_chosen_ = true;
  lay_out();
}

void TimelineView::reset_lane_size() {
  size_chosen_ = false;
  suit_lane_size();
  lay_out();
}

}  // namespace meshwright

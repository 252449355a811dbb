#include "simulator/engine/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <vector>

#include "simulator/engine/meetings.h"
#include "simulator/engine/memory_use.h"

namespace meshwright {
namespace {

using LaneIndex = std::uint32_t;  // into all lanes of all programs

// A lane runs its tasks in their order. While it cannot go on, it stands in exactly one list: of
// those that wait for the same task, or of those that have come to the same meeting.
struct Lane {
  std::uint32_t program = 0;
  std::vector<std::uint32_t> tasks;
  std::size_t next = 0;          // of `tasks`
  std::uint32_t waits_done = 0;  // of the next task
  Seconds ready;                 // when the next task may start, by what is known so far
  std::optional<LaneIndex> next_in_list;
};

struct Meeting {
  std::uint32_t missing = 0;
  Seconds ready;
  std::optional<LaneIndex> first;
};

class Playback {
 public:
  Playback(std::span<const Program> programs, const CostModel& costs);
  Timeline play();

 private:
  void advance(LaneIndex index);
  // False: the lane now stands in a list.
  bool waits_are_over(LaneIndex index);
  void meet(LaneIndex index);
  void finish_next(LaneIndex index, TaskSpan span);
  void resume_all(std::optional<LaneIndex> first);
  [[noreturn]] void explain_block(const Lane& lane) const;

  const Program& program_of(const Lane& lane) const { return programs_[lane.program]; }
  const Task& next_task(const Lane& lane) const {
    return program_of(lane).tasks[lane.tasks[lane.next]];
  }
  Meeting& next_meeting(const Lane& lane) {
    return meetings_[meeting_of_task_[lane.program][lane.tasks[lane.next]]];
  }

  std::span<const Program> programs_;
  const CostModel& costs_;
  Timeline timeline_;
  std::vector<Lane> lanes_;
  std::vector<Meeting> meetings_;
  std::vector<std::vector<Seconds>> kernel_times_;
  std::vector<std::vector<std::uint32_t>> meeting_of_task_;
  std::vector<std::vector<bool>> done_;
  std::vector<std::vector<std::optional<LaneIndex>>> waiting_;  // by task: the first of the list
  std::vector<LaneIndex> can_advance_;
};

std::vector<Seconds> kernel_times(const Program& program, const CostModel& costs) {
  std::vector<Seconds> times;
  for (const Kernel& kernel : program.kernels) {
    times.push_back(costs.kernel(kernel, program.precision, program.device).time);
  }
  return times;
}

std::vector<Lane> lanes_of(const Program& program, std::size_t index) {
  std::vector<Lane> lanes(program.lanes.size(), {.program = static_cast<std::uint32_t>(index)});
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const std::size_t lane = program.tasks[i].lane.index();
    assert(lane < lanes.size());
    lanes[lane].tasks.push_back(static_cast<std::uint32_t>(i));
  }
  return lanes;
}

// Kernels have a 0 that is not looked at.
std::vector<std::uint32_t> by_task(const Program& program,
                                   const std::vector<std::uint32_t>& by_transfer) {
  std::vector<std::uint32_t> all(program.tasks.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    if (program.tasks[i].kind == TaskKind::Transfer) all[i] = by_transfer[next++];
  }
  return all;
}

Playback::Playback(std::span<const Program> programs, const CostModel& costs)
    : programs_(programs), costs_(costs) {
  const Meetings meetings = find_meetings(programs);
  for (const std::uint32_t members : meetings.members) meetings_.push_back({.missing = members});
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const Program& program = programs[i];
    const std::size_t tasks = program.tasks.size();
    timeline_.devices.push_back({.device = program.device, .tasks = std::vector<TaskSpan>(tasks)});
    std::ranges::move(lanes_of(program, i), std::back_inserter(lanes_));
    kernel_times_.push_back(kernel_times(program, costs));
    meeting_of_task_.push_back(by_task(program, meetings.of_program[i]));
    done_.emplace_back(tasks);
    waiting_.emplace_back(tasks);
  }
}

bool Playback::waits_are_over(LaneIndex index) {
  Lane& lane = lanes_[index];
  const auto waits = program_of(lane).waits_of(next_task(lane));
  for (; lane.waits_done < waits.size(); ++lane.waits_done) {
    const std::size_t wait = waits[lane.waits_done].index();
    if (!done_[lane.program][wait]) {
      auto& first = waiting_[lane.program][wait];
      lane.next_in_list = first;
      first = index;
      return false;
    }
    lane.ready = std::max(lane.ready, timeline_.devices[lane.program].tasks[wait].finish);
  }
  return true;
}

void Playback::advance(LaneIndex index) {
  Lane& lane = lanes_[index];
  while (lane.next < lane.tasks.size() && waits_are_over(index)) {
    const Task& task = next_task(lane);
    if (task.kind == TaskKind::Transfer) return meet(index);
    finish_next(index, {lane.ready, lane.ready + kernel_times_[lane.program][task.what]});
  }
}

void Playback::meet(LaneIndex index) {
  Lane& lane = lanes_[index];
  Meeting& meeting = next_meeting(lane);
  assert(meeting.missing > 0);
  meeting.ready = std::max(meeting.ready, lane.ready);
  lane.next_in_list = meeting.first;
  meeting.first = index;
  if (--meeting.missing > 0) return;
  const Program& program = program_of(lane);
  const Price price = costs_.transfer(program.transfer(next_task(lane)), program.precision);
  const TaskSpan span = {meeting.ready, meeting.ready + price.time};
  for (auto member = meeting.first; member; member = lanes_[*member].next_in_list) {
    finish_next(*member, span);
  }
  resume_all(meeting.first);
}

void Playback::finish_next(LaneIndex index, TaskSpan span) {
  Lane& lane = lanes_[index];
  const std::uint32_t task = lane.tasks[lane.next++];
  lane.waits_done = 0;
  lane.ready = span.finish;
  timeline_.devices[lane.program].tasks[task] = span;
  timeline_.step = std::max(timeline_.step, span.finish);
  done_[lane.program][task] = true;
  resume_all(waiting_[lane.program][task]);
}

void Playback::resume_all(std::optional<LaneIndex> first) {
  for (auto lane = first; lane; lane = lanes_[*lane].next_in_list) can_advance_.push_back(*lane);
}

void Playback::explain_block(const Lane& lane) const {
  const auto waits = program_of(lane).waits_of(next_task(lane));
  const std::string why = lane.waits_done < waits.size()
                              ? fmt::format("waits for task {}", waits[lane.waits_done].index())
                              : fmt::format("waits for other members of its group");
  throw std::logic_error(fmt::format(
      "device {}, lane {}: task {} can never start: it {}", program_of(lane).device.index(),
      program_of(lane).lanes[next_task(lane).lane.index()], lane.tasks[lane.next], why));
}

Timeline Playback::play() {
  for (LaneIndex lane = 0; lane < lanes_.size(); ++lane) {
    advance(lane);
    while (!can_advance_.empty()) {
      const LaneIndex next = can_advance_.back();
      can_advance_.pop_back();
      advance(next);
    }
  }
  for (const Lane& lane : lanes_) {
    if (lane.next < lane.tasks.size()) explain_block(lane);
  }
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    timeline_.devices[i].memory = memory_use(programs_[i], timeline_.devices[i].tasks);
  }
  return std::move(timeline_);
}

}  // namespace

Timeline simulate(std::span<const Program> programs, const CostModel& costs) {
  return Playback(programs, costs).play();
}

}  // namespace meshwright

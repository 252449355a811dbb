#include "gui/timeline_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace meshwright {
namespace {

std::int64_t in_nanoseconds(Seconds time) { return std::llround(time.value() * 1e9); }

Hue hue_of(Phase phase) {
  switch (phase) {
    case Phase::Forward:
      return Hue::Forward;
    case Phase::InputGradient:
      return Hue::InputGradient;
    case Phase::WeightGradient:
      return Hue::WeightGradient;
    case Phase::Step:
      return Hue::Optimizer;
  }
  return Hue::Forward;
}

Hue hue_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::Tensor:
    case Purpose::Context:
      return Hue::TensorTransfer;
    case Purpose::Experts:
      return Hue::ExpertTransfer;
    case Purpose::Pipeline:
      return Hue::PipelineTransfer;
    case Purpose::Gradients:
    case Purpose::Weights:
    case Purpose::Tied:
    case Purpose::Norm:
    case Purpose::Loss:
      return Hue::DataTransfer;
  }
  return Hue::DataTransfer;
}

Hue hue_of(const Program& program, const Task& task) {
  switch (task.kind) {
    case TaskKind::Kernel:
      return task.recompute ? Hue::Recompute : hue_of(program.kernel(task).phase);
    case TaskKind::Transfer:
      return hue_of(program.transfer(task).purpose);
    case TaskKind::Copy:
      return Hue::Copy;
  }
  return Hue::Copy;
}

// By the words that trace files have, which are those of the enumerations.
Hue hue_of(const TracedTask& task) {
  if (task.task == TaskKind::Copy) return Hue::Copy;
  if (task.task == TaskKind::Kernel) {
    if (task.recompute) return Hue::Recompute;
    for (std::size_t i = 0; i < kPhases; ++i) {
      const auto phase = static_cast<Phase>(i);
      if (to_text(phase) == task.part) return hue_of(phase);
    }
    return Hue::Forward;
  }
  return hue_of_transfer(task.part);
}

std::int16_t number_in_bar(std::optional<std::int32_t> microbatch) {
  return microbatch && *microbatch <= 32767 ? static_cast<std::int16_t>(*microbatch) : -1;
}

// Lanes in their order, each with its tasks in the order of time.
class LanesWriter {
 public:
  void begin(DeviceId device, std::int64_t count, std::int32_t stage,
             const std::vector<std::string>& lanes) {
    result_.devices.push_back(
        {fmt::format("device {}", device.index()), count, stage, result_.lanes.size(), 0, {}});
    own_.assign(lanes.size(), {});
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      own_[i].name = lanes[i];
      own_[i].device = result_.devices.size() - 1;
      own_[i].computes = i == 0;
    }
  }
  void add(std::size_t lane, const TimedTask& task) {
    own_[lane].tasks.push_back(task);
    own_[lane].striped = own_[lane].striped || is_striped(task.hue);
    if (own_[lane].tasks.size() == 1) own_[lane].hue = task.hue;
    if (own_[lane].hue != task.hue) own_[lane].hue.reset();
    result_.end = std::max(result_.end, task.finish);
    ++result_.task_count;
    result_.hues[static_cast<std::size_t>(task.hue)] = true;
  }
  void add_member(DeviceId device) {
    result_.devices.back().members.push_back(static_cast<std::uint32_t>(device.index()));
  }
  void finish_device() {
    for (TimelineLane& lane : own_) {
      if (lane.tasks.empty()) continue;
      std::ranges::stable_sort(lane.tasks, {}, &TimedTask::start);
      result_.lanes.push_back(std::move(lane));
      ++result_.devices.back().lane_count;
    }
  }
  TimelineLanes finish(Seconds step) {
    result_.step = in_nanoseconds(step);
    result_.end = std::max(result_.end, result_.step);
    for (TimelineLane& lane : result_.lanes) {
      lane.pyramid = LanePyramid(lane.tasks, result_.end);
      if (lane.computes) lane.runs = runs_of(lane.tasks, result_.end / 200);
    }
    return std::move(result_);
  }

 private:
  std::vector<TimelineLane> own_;
  TimelineLanes result_;
};

}  // namespace

Hue hue_of_transfer(std::string_view purpose) {
  for (const Purpose one :
       {Purpose::Tensor, Purpose::Context, Purpose::Experts, Purpose::Pipeline}) {
    if (to_text(one) == purpose) return hue_of(one);
  }
  return Hue::DataTransfer;
}

TimelineLanes lanes_of(const Represented& represented, const Timeline& timeline) {
  LanesWriter writer;
  for (std::size_t i = 0; i < represented.programs.size(); ++i) {
    const Program& program = represented.programs[i];
    const DeviceTimeline& device = timeline.devices[i];
    const std::int32_t stage = program.tasks.empty() ? 0 : program.tasks.front().key.stage;
    writer.begin(program.device, device.count, stage, program.lanes);
    for (std::uint32_t t = 0; t < program.tasks.size(); ++t) {
      const Task& task = program.tasks[t];
      writer.add(task.lane.index(),
                 {in_nanoseconds(device.tasks[t].start), in_nanoseconds(device.tasks[t].finish), t,
                  number_in_bar(task.microbatch), hue_of(program, task)});
    }
    for (const DeviceId member : represented.classes[i]) writer.add_member(member);
    writer.finish_device();
  }
  return writer.finish(timeline.step);
}

TimelineLanes lanes_of(const Trace& trace) {
  LanesWriter writer;
  for (const TracedDevice& device : trace.devices) {
    writer.begin(device.device, device.count, 0, device.lanes);
    for (std::uint32_t t = 0; t < device.tasks.size(); ++t) {
      const TracedTask& task = device.tasks[t];
      writer.add(task.lane, {in_nanoseconds(task.span.start), in_nanoseconds(task.span.finish), t,
                             number_in_bar(task.microbatch), hue_of(task)});
    }
    writer.finish_device();
  }
  return writer.finish(trace.step);
}

std::vector<LaneRun> runs_of(std::span<const TimedTask> tasks, std::int64_t most_gap) {
  std::vector<LaneRun> runs;
  bool open = false;  // the last run may go on
  for (const TimedTask& task : tasks) {
    if (task.microbatch < 0) {
      open = false;
      continue;
    }
    const bool goes_on = open && runs.back().microbatch == task.microbatch &&
                         (runs.back().hue == Hue::Forward) == (task.hue == Hue::Forward) &&
                         task.start - runs.back().finish <= most_gap;
    if (goes_on) {
      runs.back().finish = std::max(runs.back().finish, task.finish);
    } else {
      runs.push_back({task.start, task.finish, task.microbatch, task.hue});
    }
    open = true;
  }
  return runs;
}

std::string lane_name(const TimelineLanes& lanes, std::size_t lane) {
  const TimelineLane& one = lanes.lanes[lane];
  return lanes.devices[one.device].name + ", " + one.name;
}

std::optional<std::size_t> task_at(const TimelineLane& lane, std::int64_t time) {
  const auto after = std::ranges::upper_bound(lane.tasks, time, {}, &TimedTask::start);
  if (after == lane.tasks.begin()) return std::nullopt;
  const auto found = std::prev(after);
  if (time >= found->finish) return std::nullopt;
  return static_cast<std::size_t>(found - lane.tasks.begin());
}

std::int64_t busy_in(const TimelineLane& lane, std::int64_t from, std::int64_t to) {
  std::int64_t busy = 0;
  auto task = std::ranges::upper_bound(lane.tasks, from, {}, &TimedTask::finish);
  for (; task != lane.tasks.end() && task->start < to; ++task) {
    busy += std::max<std::int64_t>(0, std::min(task->finish, to) - std::max(task->start, from));
  }
  return busy;
}

}  // namespace meshwright

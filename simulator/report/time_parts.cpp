#include "simulator/report/time_parts.h"

#include <algorithm>
#include <array>
#include <span>

#include "simulator/engine/sort_runs.h"

namespace meshwright {
namespace {

// Part of the step that belongs to one task.
struct Stretch {
  TaskSpan span;
  const Task* task = nullptr;
};

// By start, each cut short by those before it.
void cut_overlap(std::vector<Stretch>& stretches) {
  sort_runs(stretches, [](const Stretch& stretch) { return stretch.span.start; });
  Seconds covered;
  std::size_t kept = 0;
  for (Stretch stretch : stretches) {
    stretch.span.start = std::max(stretch.span.start, covered);
    if (stretch.span.finish <= stretch.span.start) continue;
    covered = stretch.span.finish;
    stretches[kept++] = stretch;
  }
  stretches.resize(kept);
}

std::vector<TaskSpan> gaps_between(const std::vector<Stretch>& stretches, Seconds step) {
  std::vector<TaskSpan> gaps;
  Seconds covered;
  for (const Stretch& stretch : stretches) {
    if (stretch.span.start > covered) gaps.push_back({covered, stretch.span.start});
    covered = stretch.span.finish;
  }
  if (step > covered) gaps.push_back({covered, step});
  return gaps;
}

// Pieces of a span that lie in the step, where what is beyond its end is at its start. A device may
// be several steps behind the first one.
void add_wrapped(TaskSpan span, const Task& task, Seconds step, std::vector<Stretch>& stretches) {
  while (step > Seconds(0) && span.start >= step) span = {span.start - step, span.finish - step};
  for (; step > Seconds(0) && span.finish > step; span = {Seconds(0), span.finish - step}) {
    stretches.push_back({{span.start, step}, &task});
  }
  stretches.push_back({span, &task});
}

// When the kernels of the compute lane could have started but for their host, up to when they did.
std::vector<TaskSpan> launch_waits(const Program& program, const DeviceTimeline& device) {
  std::vector<TaskSpan> waits;
  if (device.launches.empty()) return waits;
  Seconds free;  // of the lane
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    if (task.lane != LaneId(0)) continue;
    Seconds ready = free;
    for (const TaskId wait : program.waits_of(task)) {
      ready = std::max(ready, device.tasks[wait.index()].finish);
    }
    const TaskSpan wait{ready, std::min(device.tasks[i].start, device.launches[i])};
    if (wait.finish > wait.start) waits.push_back(wait);
    free = device.tasks[i].finish;
  }
  return waits;
}

// Adds up what of idle time, given piece by piece in order, was waiting for the host.
class IdleTime {
 public:
  IdleTime(std::vector<TaskSpan> launch_waits, TimeParts& parts)
      : waits_(std::move(launch_waits)), parts_(parts) {}

  void add(Seconds from, Seconds to) {
    Seconds waited;
    while (next_ < waits_.size() && waits_[next_].finish <= from) ++next_;
    for (std::size_t i = next_; i < waits_.size() && waits_[i].start < to; ++i) {
      waited += std::min(to, waits_[i].finish) - std::max(from, waits_[i].start);
    }
    parts_.dispatch += waited;
    parts_.idle += to - from - waited;
  }

 private:
  std::vector<TaskSpan> waits_;
  std::size_t next_ = 0;
  TimeParts& parts_;
};

void add_kernels(const Program& program, const std::vector<Stretch>& kernels, TimeParts& parts) {
  std::array<Seconds, kPhases> sums{};
  for (const Stretch& kernel : kernels) {
    const Seconds time = kernel.span.finish - kernel.span.start;
    if (kernel.task->recompute) {
      parts.recomputation += time;
    } else {
      sums[static_cast<std::size_t>(program.kernel(*kernel.task).phase)] += time;
    }
  }
  for (std::size_t phase = 0; phase < sums.size(); ++phase) {
    parts.kernels[static_cast<Phase>(phase)] = sums[phase];
  }
}

void add_exposed(const Program& program, const Stretch& transfer, Seconds time, TimeParts& parts) {
  if (transfer.task->recompute) {
    parts.recomputation += time;
  } else if (transfer.task->kind == TaskKind::Copy) {
    parts.copies[program.copy(*transfer.task).direction] += time;
  } else {
    parts.transfers[program.transfer(*transfer.task).purpose] += time;
  }
}

}  // namespace

TimeParts time_parts(const Program& program, const DeviceTimeline& device, Seconds step) {
  TimeParts parts;
  std::vector<Stretch> kernels, transfers;
  kernels.reserve(program.tasks.size());
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    if (task.kind == TaskKind::Transfer) {
      add_wrapped(device.tasks[i], task, step, transfers);
      parts.transfers[program.transfer(task).purpose] = Seconds(0);
    } else if (task.kind == TaskKind::Copy) {
      add_wrapped(device.tasks[i], task, step, transfers);
      parts.copies[program.copy(task).direction] = Seconds(0);
    } else if (task.lane == LaneId(0)) {
      add_wrapped(device.tasks[i], task, step, kernels);
    }
  }
  cut_overlap(kernels);
  cut_overlap(transfers);
  add_kernels(program, kernels, parts);
  IdleTime idle(launch_waits(program, device), parts);
  std::size_t next = 0;
  for (const TaskSpan& gap : gaps_between(kernels, step)) {
    Seconds covered = gap.start;
    for (; next < transfers.size() && transfers[next].span.start < gap.finish; ++next) {
      const Seconds from = std::max(covered, transfers[next].span.start);
      const Seconds to = std::min(gap.finish, transfers[next].span.finish);
      if (to > from) {
        idle.add(covered, from);
        add_exposed(program, transfers[next], to - from, parts);
        covered = to;
      }
      if (transfers[next].span.finish > gap.finish) break;
    }
    idle.add(covered, gap.finish);
  }
  return parts;
}

Seconds kernel_time(const TimeParts& parts) {
  Seconds sum = parts.recomputation;
  for (const auto& [phase, time] : parts.kernels) sum += time;
  return sum;
}

std::vector<std::pair<std::string, Seconds>> named_parts(const TimeParts& parts) {
  std::vector<std::pair<std::string, Seconds>> named;
  for (const auto& [phase, time] : parts.kernels) {
    named.emplace_back(phase == Phase::Step ? "optimizer" : to_text(phase), time);
  }
  for (const auto& [purpose, time] : parts.transfers) {
    named.emplace_back(std::string(to_text(purpose)) + "_transfer", time);
  }
  for (const auto& [direction, time] : parts.copies) {
    named.emplace_back(direction == CopyDirection::ToHost ? "copy_to_host" : "copy_from_host",
                       time);
  }
  named.emplace_back("recomputation", parts.recomputation);
  named.emplace_back("dispatch", parts.dispatch);
  named.emplace_back("idle", parts.idle);
  if (parts.between_steps > Seconds(0)) named.emplace_back("between_steps", parts.between_steps);
  return named;
}

}  // namespace meshwright

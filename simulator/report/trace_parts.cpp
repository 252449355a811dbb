#include "simulator/report/trace_parts.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace meshwright {
namespace {

// Part of the step that belongs to one task.
struct TracedStretch {
  TaskSpan span;
  const TracedTask* task = nullptr;
};

// What is beyond the end of the step is at its start.
void add_in_step(TracedStretch stretch, Seconds step, std::vector<TracedStretch>& stretches) {
  auto& [start, finish] = stretch.span;
  while (step > Seconds(0) && start >= step) {
    start -= step;
    finish -= step;
  }
  while (step > Seconds(0) && finish > step) {
    stretches.push_back({{start, step}, stretch.task});
    start = Seconds(0);
    finish -= step;
  }
  stretches.push_back(stretch);
}

// By start, each without what those before it cover.
std::vector<TracedStretch> cut_short(std::vector<TracedStretch> stretches) {
  std::ranges::stable_sort(stretches, {}, [](const TracedStretch& s) { return s.span.start; });
  Seconds covered;
  std::vector<TracedStretch> cut;
  for (TracedStretch stretch : stretches) {
    stretch.span.start = std::max(stretch.span.start, covered);
    if (stretch.span.finish <= stretch.span.start) continue;
    covered = stretch.span.finish;
    cut.push_back(stretch);
  }
  return cut;
}

std::string part_of(const TracedTask& task) {
  if (task.recompute) return "recomputation";
  switch (task.task) {
    case TaskKind::Kernel:
      return task.part == to_text(Phase::Step) ? "optimizer" : task.part;
    case TaskKind::Transfer:
      return task.part + "_transfer";
    case TaskKind::Copy:
      return task.kind == to_text(CopyDirection::ToHost) ? "copy_to_host" : "copy_from_host";
  }
  return "";
}

// Where a part stands among others.
std::size_t rank_of(const std::string& part) {
  static constexpr std::array<std::string_view, 4> kFirst = {"forward", "input_gradient",
                                                             "weight_gradient", "optimizer"};
  static constexpr std::array<std::string_view, 4> kLast = {"copy_to_host", "copy_from_host",
                                                            "recomputation", "idle"};
  const auto first = std::ranges::find(kFirst, part);
  if (first != kFirst.end()) return static_cast<std::size_t>(first - kFirst.begin());
  const auto last = std::ranges::find(kLast, part);
  return last == kLast.end() ? kFirst.size()
                             : kFirst.size() + 1 + static_cast<std::size_t>(last - kLast.begin());
}

class KindSums {
 public:
  void add(const TracedStretch& stretch, Seconds from, Seconds to) {
    sums_[{part_of(*stretch.task), stretch.task->kind}] += to - from;
    spent_ += to - from;
  }
  std::vector<KindTime> times(Seconds step) && {
    // Times are rounded, so that a device that is never idle may seem to be less than that.
    sums_[{"idle", ""}] = std::max(Seconds(0), step - spent_);
    std::vector<KindTime> times;
    for (const auto& [name, time] : sums_) times.push_back({name.first, name.second, time});
    std::ranges::stable_sort(times, {}, [](const KindTime& time) { return rank_of(time.part); });
    return times;
  }

 private:
  std::map<std::pair<std::string, std::string>, Seconds> sums_;
  Seconds spent_;
};

// Adds what of `others` lies where no kernel runs: up to the start of a kernel or the end.
void add_exposed_until(Seconds end, Seconds from, const std::vector<TracedStretch>& others,
                       std::size_t& next, KindSums& sums) {
  while (next < others.size() && others[next].span.finish <= from) ++next;
  for (std::size_t i = next; i < others.size() && others[i].span.start < end; ++i) {
    const Seconds start = std::max(from, others[i].span.start);
    const Seconds finish = std::min(end, others[i].span.finish);
    if (finish > start) sums.add(others[i], start, finish);
  }
}

bool overlap(const TaskSpan& span, const TaskSpan& range) {
  return span.start < range.finish && span.finish > range.start;
}

// Counted from the start of the range.
TaskSpan within(const TaskSpan& span, const TaskSpan& range) {
  const Seconds start = std::clamp(span.start, range.start, range.finish);
  return {start - range.start,
          std::clamp(span.finish, start, std::max(start, range.finish)) - range.start};
}

}  // namespace

std::vector<KindTime> kind_times(const TracedDevice& device, Seconds step) {
  std::vector<TracedStretch> kernels, others;
  for (const TracedTask& task : device.tasks) {
    if (task.task != TaskKind::Kernel) {
      add_in_step({task.span, &task}, step, others);
    } else if (task.lane == 0) {
      add_in_step({task.span, &task}, step, kernels);
    }
  }
  kernels = cut_short(std::move(kernels));
  others = cut_short(std::move(others));
  KindSums sums;
  Seconds covered;
  std::size_t next = 0;
  for (const TracedStretch& kernel : kernels) {
    add_exposed_until(kernel.span.start, covered, others, next, sums);
    sums.add(kernel, kernel.span.start, kernel.span.finish);
    covered = kernel.span.finish;
  }
  add_exposed_until(step, covered, others, next, sums);
  return std::move(sums).times(step);
}

TimeShares shares_of(const std::vector<KindTime>& times) {
  Seconds all, exposed, idle;
  for (const KindTime& time : times) {
    all += time.time;
    if (time.part == "idle") idle += time.time;
    if (time.part.ends_with("_transfer") || time.part.starts_with("copy_")) exposed += time.time;
  }
  if (all == Seconds(0)) return {};
  return {1 - (exposed + idle) / all, exposed / all, idle / all};
}

TracedDevice cut_to(const TracedDevice& device, const TaskSpan& range) {
  TracedDevice cut{.device = device.device, .count = device.count, .lanes = device.lanes};
  for (const TracedTask& task : device.tasks) {
    if (!overlap(task.span, range)) continue;
    cut.tasks.push_back(task);
    cut.tasks.back().span = within(task.span, range);
  }
  return cut;
}

TracedDevice cut_to(const Program& program, const DeviceTimeline& device, const TaskSpan& range) {
  TracedDevice cut{.device = program.device, .count = device.count, .lanes = program.lanes};
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    if (!overlap(device.tasks[i], range)) continue;
    cut.tasks.push_back(traced_task(program, program.tasks[i], device.tasks[i]));
    cut.tasks.back().span = within(cut.tasks.back().span, range);
  }
  return cut;
}

std::size_t last_device(const Trace& trace) {
  const auto lateness = [](const TracedDevice& device) {
    Seconds last, computed;
    for (const TracedTask& task : device.tasks) {
      last = std::max(last, task.span.finish);
      if (task.task == TaskKind::Kernel) computed += task.span.finish - task.span.start;
    }
    return std::tuple(last, computed);
  };
  std::size_t last = 0;
  for (std::size_t i = 1; i < trace.devices.size(); ++i) {
    if (lateness(trace.devices[i]) > lateness(trace.devices[last])) last = i;
  }
  return last;
}

}  // namespace meshwright

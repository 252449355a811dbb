#include "simulator/time_parts.h"

#include <algorithm>
#include <span>

namespace meshwright {
namespace {

// Part of the step that belongs to one task.
struct Stretch {
  TaskSpan span;
  const Task* task = nullptr;
};

// By start, each cut short by those before it.
std::vector<Stretch> without_overlap(std::vector<Stretch> stretches) {
  std::ranges::stable_sort(stretches, {}, [](const Stretch& s) { return s.span.start; });
  Seconds covered;
  std::vector<Stretch> cut;
  for (Stretch stretch : stretches) {
    stretch.span.start = std::max(stretch.span.start, covered);
    if (stretch.span.finish <= stretch.span.start) continue;
    covered = stretch.span.finish;
    cut.push_back(stretch);
  }
  return cut;
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

}  // namespace

TimeParts time_parts(const Program& program, const DeviceTimeline& device, Seconds step) {
  TimeParts parts;
  for (const KernelPart part : {KernelPart::Forward, KernelPart::InputGradient,
                                KernelPart::WeightGradient, KernelPart::Step}) {
    parts.kernels[part] = Seconds(0);
  }
  std::vector<Stretch> kernels, transfers;
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    if (task.kind == TaskKind::Transfer) {
      transfers.push_back({device.tasks[i], &task});
      parts.transfers[program.transfer(task).purpose] = Seconds(0);
    } else if (task.lane == LaneId(0)) {
      kernels.push_back({device.tasks[i], &task});
    }
  }
  kernels = without_overlap(std::move(kernels));
  transfers = without_overlap(std::move(transfers));
  for (const Stretch& kernel : kernels) {
    parts.kernels[program.kernel(*kernel.task).part] += kernel.span.finish - kernel.span.start;
  }
  std::size_t next = 0;
  for (const TaskSpan& gap : gaps_between(kernels, step)) {
    Seconds covered = gap.start;
    for (; next < transfers.size() && transfers[next].span.start < gap.finish; ++next) {
      const Seconds from = std::max(covered, transfers[next].span.start);
      const Seconds to = std::min(gap.finish, transfers[next].span.finish);
      if (to > from) {
        parts.idle += from - covered;
        parts.transfers[program.transfer(*transfers[next].task).purpose] += to - from;
        covered = to;
      }
      if (transfers[next].span.finish > gap.finish) break;
    }
    parts.idle += gap.finish - covered;
  }
  return parts;
}

Seconds kernel_time(const TimeParts& parts) {
  Seconds sum;
  for (const auto& [part, time] : parts.kernels) sum += time;
  return sum;
}

std::vector<std::pair<std::string, Seconds>> named_parts(const TimeParts& parts) {
  std::vector<std::pair<std::string, Seconds>> named;
  for (const auto& [part, time] : parts.kernels) {
    named.emplace_back(part == KernelPart::Step ? "optimizer" : to_text(part), time);
  }
  for (const auto& [purpose, time] : parts.transfers) {
    named.emplace_back(std::string(to_text(purpose)) + "_transfer", time);
  }
  named.emplace_back("idle", parts.idle);
  return named;
}

}  // namespace meshwright

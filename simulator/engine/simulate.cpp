#include "simulator/engine/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <vector>

#include "simulator/engine/memory_use.h"
#include "simulator/engine/play.h"

namespace meshwright {
namespace {

[[noreturn]] void explain_block(const Scene& scene, const Score& score,
                                const Played::Block& block) {
  const std::uint32_t p = score.tasks[block.task].program;
  const Program& program = scene.programs[p];
  const std::uint32_t first = score.program_first[p];
  const std::uint32_t task = block.task - first;
  const std::string why = block.waits_for
                              ? fmt::format("waits for task {}", *block.waits_for - first)
                              : fmt::format("waits for other members of its group");
  throw std::logic_error(fmt::format("device {}, lane {}: task {} can never start: it {}",
                                     program.device.index(),
                                     program.lanes[program.tasks[task].lane.index()], task, why));
}

Seconds end_of(const std::vector<TaskSpan>& spans) {
  Seconds end;
  for (const TaskSpan& span : spans) end = std::max(end, span.finish);
  return end;
}

Seconds start_of(const std::vector<TaskSpan>& spans) {
  if (spans.empty()) return Seconds(0);
  return std::ranges::min_element(spans, {}, &TaskSpan::start)->start;
}

// What the busiest lane of any device needs for one step.
Seconds longest_lane(const Score& score, const std::vector<TaskSpan>& spans) {
  Seconds longest;
  for (const ScoreLane& lane : score.lanes) {
    Seconds busy;
    for (std::uint32_t i = lane.first; i < lane.first + lane.count; ++i) {
      const TaskSpan& span = spans[score.lane_tasks[i]];
      busy += span.finish - span.start;
    }
    longest = std::max(longest, busy);
  }
  return longest;
}

// In the last step.
std::vector<Seconds> launches_of(const Score& score, const Played& played, std::size_t program,
                                 Seconds dispatch, Seconds origin) {
  std::vector<Seconds> launches;
  const auto step = static_cast<std::uint32_t>(played.steps.size() - 1);
  for (std::uint32_t task = score.program_first[program]; task < score.program_first[program + 1];
       ++task) {
    const double time = launch_time(score, played, task, step, dispatch.value());
    launches.push_back(Seconds(time) - origin);
  }
  return launches;
}

// The task that is latest after itself a step before: the end of the second step alone would miss
// what only a third would wait for.
Seconds period_of(const Score& score, const Played& played) {
  Seconds longest = longest_lane(score, played.steps[1]);
  for (std::size_t t = 0; t < played.steps[1].size(); ++t) {
    longest = std::max(longest, played.steps[1][t].finish - played.steps[0][t].finish);
  }
  return longest;
}

}  // namespace

Timeline simulate(const Scene& scene, const CostModel& costs, const EngineOptions& options) {
  assert(options.slow_down_inside_node >= 1 && options.slow_down_across_nodes >= 1);
  const Score score = make_score(scene, costs, options);
  const bool alone = !options.share_links && options.slow_down_inside_node == 1 &&
                     options.slow_down_across_nodes == 1;
  const Played played = alone ? play_alone(score, options) : play_shared(score, options);
  if (played.block) explain_block(scene, score, *played.block);

  const std::vector<TaskSpan>& spans = played.steps.back();
  const Seconds origin = options.repeat ? start_of(spans) : Seconds(0);
  Timeline timeline{.step = options.repeat ? period_of(score, played) : end_of(spans)};
  for (std::size_t i = 0; i < kPriceOrigins; ++i) {
    if (score.priced_ns[i] == 0) continue;
    timeline.priced[static_cast<PriceOrigin>(i)] =
        Seconds(static_cast<double>(score.priced_ns[i]) * 1e-9);
  }
  for (std::size_t p = 0; p < scene.programs.size(); ++p) {
    DeviceTimeline& device = timeline.devices.emplace_back();
    device.device = scene.programs[p].device;
    device.count = scene.counts[p];
    device.tasks.assign(spans.begin() + score.program_first[p],
                        spans.begin() + score.program_first[p + 1]);
    if (options.repeat) {
      for (TaskSpan& span : device.tasks) span = {span.start - origin, span.finish - origin};
    }
    if (options.dispatch > Seconds(0)) {
      device.launches = launches_of(score, played, p, options.dispatch, origin);
    }
    if (options.memory == MemoryDetail::None) continue;
    device.memory =
        options.memory == MemoryDetail::OverTime
            ? memory_use(scene.programs[p], device.tasks, timeline.step)
            : std::vector{fullest_moment(scene.programs[p], device.tasks, timeline.step)};
    device.host_peak = host_peak(scene.programs[p], device.tasks, timeline.step);
  }
  return timeline;
}

Timeline simulate(std::span<const Program> programs, const CostModel& costs) {
  return simulate(scene_of(programs), costs);
}

Timeline simulate(std::span<const Program> programs, const CostModel& costs, const Cluster& cluster,
                  const EngineOptions& options) {
  return simulate(scene_of(programs, cluster), costs, options);
}

}  // namespace meshwright

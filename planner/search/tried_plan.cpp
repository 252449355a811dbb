#include "planner/search/tried_plan.h"

#include <algorithm>
#include <utility>

#include "simulator/lowering/lower.h"

namespace meshwright {

TriedPlan try_plan(const PlanChoices& choices, std::size_t fullest_stage, Bytes room,
                   const BatchChoice& batch, const Setting& setting) {
  auto made = plan_of(choices, batch, setting);
  if (auto* reasons = std::get_if<Reasons>(&made)) return std::move(*reasons);
  const Plan& plan = std::get<Plan>(made);
  const Overheads overheads = overheads_of(plan, setting);
  Bytes needed;
  const auto finds_room = [&](const Program& program) {
    needed = std::max(needed, least_needed(program, overheads));
    return needed <= room;
  };
  const bool stages = plan.slots.size() > 1;
  if (stages && overheads.caching_allocator) {
    const DeviceId device = plan.slots[fullest_stage].mesh.devices().front();
    if (!finds_room(lower(setting.model, plan, device))) return TooLarge{needed};
  }
  const auto represented =
      represent_if(setting.model, plan, setting.cluster,
                   [&](const Program& program) { return stages || finds_room(program); });
  if (!represented) return TooLarge{needed};
  std::int64_t tasks = 0;
  for (const Program& program : represented->programs) {
    tasks += static_cast<std::int64_t>(program.tasks.size());
  }
  // Large programs hold a lot over time.
  Setting peaks = setting;
  peaks.engine.memory = MemoryDetail::Peak;
  Report report = play(*represented, plan, peaks).report;
  return SimulatedPlan{std::get<Plan>(std::move(made)), std::move(report), tasks};
}

}  // namespace meshwright

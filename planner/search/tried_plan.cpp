#include "planner/search/tried_plan.h"

#include <utility>

#include "simulator/lowering/lower.h"

namespace meshwright {

TriedPlan try_plan(const PlanChoices& choices, std::size_t fullest_stage, Bytes room,
                   const BatchChoice& batch, const Setting& setting) {
  auto made = plan_of(choices, batch, setting);
  if (auto* reasons = std::get_if<Reasons>(&made)) return std::move(*reasons);
  const Plan& plan = std::get<Plan>(made);
  const Overheads overheads = overheads_of(plan, setting);
  const bool stages = plan.slots.size() > 1;
  if (stages && overheads.caching_allocator) {
    const DeviceId device = plan.slots[fullest_stage].mesh.devices().front();
    const Bytes needed = least_needed(lower(setting.model, plan, device), overheads);
    if (needed > room) return TooLarge{needed};
  }
  const Represented represented = represent(setting.model, plan, setting.cluster);
  std::int64_t tasks = 0;
  for (const Program& program : represented.programs) {
    const Bytes needed = stages ? Bytes() : least_needed(program, overheads);
    if (needed > room) return TooLarge{needed};
    tasks += static_cast<std::int64_t>(program.tasks.size());
  }
  Report report = play(represented, plan, setting).report;
  return SimulatedPlan{std::get<Plan>(std::move(made)), std::move(report), tasks};
}

}  // namespace meshwright

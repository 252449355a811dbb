#include "planner/search/tried_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "costmodel/base/input_error.h"
#include "simulator/lowering/lower.h"

namespace meshwright {

std::variant<Plan, Reasons> PlanTrials::plan_with_bucket(const PlanChoices& choices) {
  constexpr std::size_t kKept = 4;
  PlanChoices key = choices;
  key.bucket = key.bucket_per_replica = Bytes();
  auto known = std::ranges::find(latest_, key, &decltype(latest_)::value_type::first);
  if (known == latest_.end()) {
    if (latest_.size() == kKept) latest_.pop_front();
    latest_.emplace_back(std::move(key), plan_of(choices, batch_, setting_));
    known = std::prev(latest_.end());
  }
  std::variant<Plan, Reasons> made = known->second;
  if (auto* plan = std::get_if<Plan>(&made)) plan->bucket = bucket_of(choices);
  return made;
}

TriedPlan PlanTrials::of(const PlanChoices& choices, std::size_t fullest_stage, Bytes room) {
  try {
    return lowered_and_played(choices, fullest_stage, room);
  } catch (const InputError& error) {
    return Reasons{error.what()};
  }
}

TriedPlan PlanTrials::lowered_and_played(const PlanChoices& choices, std::size_t fullest_stage,
                                         Bytes room) {
  const Setting& setting = setting_;
  auto made = plan_with_bucket(choices);
  if (auto* reasons = std::get_if<Reasons>(&made)) return std::move(*reasons);
  const Plan& plan = std::get<Plan>(made);
  const Overheads overheads = overheads_of(plan, setting);
  Bytes needed;
  const auto finds_room = [&](const Program& program) {
    needed = std::max(needed, least_needed(program, overheads));
    return needed <= room && !stop_.stop_requested();
  };
  const bool stages = plan.slots.size() > 1;
  if (stages && overheads.caching_allocator) {
    const DeviceId device = plan.slots[fullest_stage].mesh.devices().front();
    finds_room(lower(setting.model, plan, device));
    if (needed > room) return TooLarge{needed};
  }
  if (stop_.stop_requested()) return Stopped();
  const auto represented =
      represent_if(setting.model, plan, setting.cluster,
                   [&](const Program& program) { return stages || finds_room(program); });
  if (needed > room) return TooLarge{needed};
  if (!represented || stop_.stop_requested()) return Stopped();
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

#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "simulator/choices/plan_choices.h"
#include "simulator/report/predict.h"

namespace meshwright {

struct SimulatedPlan {
  Plan plan;
  Report report;
  std::int64_t tasks = 0;
};
// One of its devices needs so much, whenever its tasks run.
struct TooLarge {
  Bytes needed;
};
using TriedPlan = std::variant<SimulatedPlan, TooLarge, Reasons>;

// What comes of a plan. One with a device that needs more than `room` in any order is not played,
// and where it is one of `fullest_stage`, no other stage is lowered.
TriedPlan try_plan(const PlanChoices& choices, std::size_t fullest_stage, Bytes room,
                   const BatchChoice& batch, const Setting& setting);

}  // namespace meshwright

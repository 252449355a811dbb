#pragma once

#include <optional>

#include "simulator/choices/plan_choices.h"
#include "simulator/choices/resolve.h"

namespace meshwright {

// The choices that stand for a plan: `resolve` makes the same plan of them, but for what it decides
// by cost (relayouts, when offloaded tensors come back). None: no short form says this plan.
std::optional<PlanChoices> choices_of(const Plan& plan, const Model& model, const Cluster& cluster,
                                      const CostModel& costs);

}  // namespace meshwright

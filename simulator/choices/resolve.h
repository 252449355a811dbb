#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "costmodel/model/model.h"
#include "costmodel/price/cost_model.h"
#include "simulator/choices/make_plan.h"
#include "simulator/choices/plan_choices.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// Everything that is wrong with choices for this model and cluster, in words. Empty: resolve
// makes a plan of them.
std::vector<std::string> check_choices(const PlanChoices& choices, const BatchChoice& batch,
                                       const Model& model, const Cluster& cluster);

// The whole plan that choices stand for: what depends on cost is decided here, by `costs`, and
// written down. The choices must be ones that check_choices has nothing against.
Plan resolve(const PlanChoices& choices, const BatchChoice& batch, const Model& model,
             const Cluster& cluster, const CostModel& costs);

}  // namespace meshwright

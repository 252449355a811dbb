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

// Along each axis of a plan.
struct PlanPlace {
  std::int64_t stage = 0, replica = 0, context = 0, tensor = 0;
};
// Adds why nodes have no room for the place.
void check_place(std::vector<std::string>& problems, const PlanChoices& choices,
                 const Cluster& cluster);
// The device at a place of the plan that choices stand for, which need not be made for it.
DeviceId device_of(const PlanChoices& choices, const Cluster& cluster, const PlanPlace& place);

// Layers of each chunk: as chosen, or as equal numbers as can be.
std::vector<std::int64_t> layers_of_chunks(const PlanChoices& choices, std::int64_t count);

// The whole plan that choices stand for: what depends on cost is decided here, by `costs`, and
// written down. The choices must be ones that check_choices has nothing against.
Plan resolve(const PlanChoices& choices, const BatchChoice& batch, const Model& model,
             const Cluster& cluster, const CostModel& costs);

}  // namespace meshwright

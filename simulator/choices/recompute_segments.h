#pragma once

#include <string>
#include <vector>

#include "costmodel/model/model.h"
#include "simulator/choices/plan_choices.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// The ops of each chunk that are computed again, as the choices say.
std::vector<RecomputeSegment> recompute_segments(const PlanChoices& choices, const Model& model,
                                                 const std::vector<Chunk>& chunks);

// Adds a problem for every name to be dropped that is not that of a tensor in some layer.
void check_dropped(std::vector<std::string>& problems, const PlanChoices& choices,
                   const Model& model);

}  // namespace meshwright

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "costmodel/model/model.h"
#include "simulator/choices/plan_choices.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// The ops of each chunk that are computed again, as the choices say.
std::vector<RecomputeSegment> recompute_segments(const PlanChoices& choices, const Model& model,
                                                 const std::vector<Chunk>& chunks);

// Whether a tensor such as "layers.3.attention.norm" is the layer's "attention.norm".
bool is_named(std::string_view tensor, std::string_view name);

// Adds a problem for every name to be dropped that is not that of a tensor in some layer.
void check_dropped(std::vector<std::string>& problems, const PlanChoices& choices,
                   const Model& model);

}  // namespace meshwright

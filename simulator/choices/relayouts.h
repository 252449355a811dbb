#pragma once

#include <optional>
#include <vector>

#include "costmodel/model/model.h"
#include "costmodel/price/cost_model.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// The plan's ops with the steps that their operands need besides their kernels, ops among them that
// the plan does not name but that read what others cut. A tensor is kept between ops as its
// producer computes it, summed where that is a part; with `sequence_axis` each device then keeps a
// part of the sequence. Where an op has steps for its outputs already, these say how it is kept.
// Of the ways to get there the cheapest is taken.
std::vector<OpPlan> with_relayouts(const Plan& plan, const Model& model, const CostModel& costs,
                                   const std::vector<AxisId>& sequence_axes);

}  // namespace meshwright

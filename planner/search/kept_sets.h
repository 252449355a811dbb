#pragma once

#include <vector>

#include "simulator/choices/plan_choices.h"
#include "simulator/report/predict.h"

namespace meshwright {

// Which tensors of a layer are worth dropping together: sets of them such that no other set of its
// tensors keeps less without computing more again, as far as sums of prices tell, and that lie on
// the hull of these. From what drops least to what drops most; none and all are not among them.
//
// A dropped tensor is computed again where a gradient reads it, with all that it needs of what is
// not kept either.
std::vector<RecomputeChoice> kept_sets(const PlanChoices& choices, const BatchChoice& batch,
                                       const Setting& setting);

}  // namespace meshwright

#pragma once

#include <string>
#include <vector>

#include "simulator/choices/plan_choices.h"
#include "simulator/validation/published_run.h"

namespace meshwright {

// What options of a run list that are lists, such as "recompute-mla_up_proj+mlp", in terms of ops.

// Parts of the names of ops whose kernels graphs launch, as Megatron-Core names their scopes.
std::vector<std::string> graphed_ops(const PublishedRun& run);
// What its modules drop of every layer; none dropped: no module is named.
RecomputeChoice recomputed_modules(const PublishedRun& run);

}  // namespace meshwright

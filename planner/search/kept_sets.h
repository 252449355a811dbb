#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "simulator/choices/plan_choices.h"
#include "simulator/report/predict.h"

namespace meshwright {

// Which tensors of a layer are worth dropping together.
struct KeptSets {
  // From what drops least to what drops most; none and all are not among them.
  std::vector<RecomputeChoice> sets;
  // Sets that were not found might save at most this share of what layers compute. Only solvers
  // that end early leave any.
  double open_share = 0;
  // What could not be done for lack of a solver, in words; empty: nothing.
  std::string note;
};

// Sets of a layer's tensors such that no other set keeps less without computing more again, as far
// as sums of prices tell, and that lie on the hull of these. Layers too wide for elimination are
// given to the solver, which is looked for in these folders: then those on the hull of what it
// finds for even steps of memory.
KeptSets kept_sets(const PlanChoices& choices, const BatchChoice& batch, const Setting& setting,
                   const std::vector<std::filesystem::path>& solver_folders);

}  // namespace meshwright

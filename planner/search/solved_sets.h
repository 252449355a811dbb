#pragma once

#include <cstddef>
#include <vector>

#include "planner/search/kept_front.h"
#include "planner/solver/solver.h"

namespace meshwright {

// The set that computes least again of those that keep no more than a number of bytes, as far as
// the solver came.
struct SolvedSet {
  KeptSet set;
  double least_seconds = 0;  // none computes less again
};

// One for each number of bytes, where there is such a set and the solver finds it; proven unless
// `limits` end it before.
std::vector<SolvedSet> solved_sets(const std::vector<LayerOp>& ops,
                                   const std::vector<Bytes>& most_bytes, const Solver& solver,
                                   const SolveLimits& limits);

}  // namespace meshwright

#pragma once

#include <string>
#include <vector>

#include "planner/solver/integer_problem.h"

namespace meshwright {

// What is wrong with `values` as a solution of `problem`, one sentence each; empty: it is one.
// Reads the problem as it was stated and shares no code with the way to the solver and back.
// O(n log n) in the size of the problem.
std::vector<std::string> check_solution(const IntegerProblem& problem, const Values& values);

}  // namespace meshwright

#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "planner/solver/solver.h"

namespace meshwright {

// Where ./test puts it.
inline const std::vector<std::filesystem::path> kSolverFolders = {MESHWRIGHT_ORTOOLS};

inline const Solver& found_solver() {
  static const auto loaded = load_solver(kSolverFolders);
  if (const auto* why = std::get_if<std::string>(&loaded)) {
    throw std::runtime_error(*why + ": ./test fetches it into " MESHWRIGHT_ORTOOLS);
  }
  return std::get<Solver>(loaded);
}

inline Solution solve(const IntegerProblem& problem, const SolveLimits& limits = {}) {
  return found_solver().solve(problem, limits);
}

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <variant>

#include "costmodel/base/units.h"
#include "planner/solver/integer_problem.h"

namespace meshwright {

// When to stop before the optimum is proven. With one worker and without wall_time and stop, equal
// calls give equal solutions on every machine.
struct SolveLimits {
  std::optional<double> deterministic_time;  // the solver's count of its work, about seconds
  std::optional<Seconds> wall_time;
  std::optional<double> relative_gap;  // (objective - bound) / |objective| that is good enough
  int workers = 1;                     // threads
  std::int32_t seed = 1;
  std::stop_token stop;
};

enum class SolveStatus {
  Optimal,     // proven: nothing is better
  Feasible,    // stopped early, or within relative_gap, with a solution
  Infeasible,  // proven: there is no solution
  Unknown,     // stopped before either was found
};

struct Solution {
  SolveStatus status = SolveStatus::Unknown;
  std::optional<Values> values;           // Optimal and Feasible
  std::optional<std::int64_t> objective;  // of the values, if the problem has an objective
  std::optional<std::int64_t> bound;      // no solution is below; unless Infeasible
  bool operator==(const Solution&) const = default;
};

// CP-SAT of OR-Tools, called through the C interface of its library.
class Solver {
 public:
  // Every returned solution has passed check_solution. Among equal optima any may come back, and
  // another one with another version of the solver: add a second objective where that matters. A
  // problem the solver refuses or answers wrongly is a std::logic_error. Reentrant.
  Solution solve(const IntegerProblem& problem, const SolveLimits& limits = {}) const;

 private:
  friend std::variant<Solver, std::string> load_solver(
      std::span<const std::filesystem::path> folders);

  void* (*new_environment_)() = nullptr;
  void (*end_environment_)(void*) = nullptr;
  void (*stop_search_)(void*) = nullptr;
  void (*solve_)(void* environment, const void* model, int model_size, const void* parameters,
                 int parameters_size, void** response, int* response_size) = nullptr;
};

// The first that is in one of the folders, each that of an unpacked wheel or of a Python's
// packages; or in words why there is none. It stays for as long as the program runs. The program
// neither links nor needs it: few questions do.
std::variant<Solver, std::string> load_solver(std::span<const std::filesystem::path> folders);

}  // namespace meshwright

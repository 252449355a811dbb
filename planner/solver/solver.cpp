#include "planner/solver/solver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include "planner/solver/check_solution.h"
#include "planner/solver/cp_messages.h"

namespace meshwright {

namespace {

using Environment = std::unique_ptr<void, void (*)(void*)>;
using Buffer = std::unique_ptr<void, decltype(&std::free)>;

int size_of(const std::string& message) {
  if (message.size() > std::numeric_limits<int>::max()) {
    throw std::logic_error("the integer problem is too large for the solver");
  }
  return static_cast<int>(message.size());
}

SolveStatus status_of(const CpResponse& response) {
  switch (response.status) {
    case CpResponse::Status::Optimal:
      return SolveStatus::Optimal;
    case CpResponse::Status::Feasible:
      return SolveStatus::Feasible;
    case CpResponse::Status::Infeasible:
      return SolveStatus::Infeasible;
    case CpResponse::Status::Unknown:
      return SolveStatus::Unknown;
    case CpResponse::Status::ModelInvalid:
      break;
  }
  throw std::logic_error("the solver refuses the integer problem: " + response.info);
}

// What the ranges of the variables alone say.
std::int64_t least_sum(const std::vector<Term>& terms, const std::vector<Range>& variables) {
  std::int64_t sum = 0;
  for (const auto& [variable, factor] : terms) {
    const Range range = variables[variable.index()];
    sum += factor * (factor < 0 ? range.most : range.least);
  }
  return sum;
}

// A field that is 0 is not sent. With a proven optimum a bound that did not come is 0; otherwise
// there may be none yet, and it counts only as what is true in any case.
std::int64_t bound_of(const CpResponse& response, const IntegerProblem& problem) {
  constexpr double kLargestDouble = 9007199254740992.0;  // 2^53; the solver's infinities are beyond
  const std::int64_t least = least_sum(*problem.objective(), problem.variables());
  const bool proven = response.status == CpResponse::Status::Optimal;
  const std::optional<double> bound = !response.bound && proven ? 0.0 : response.bound;
  if (!bound || std::fabs(*bound) > kLargestDouble) {
    return least;
  }
  // Objectives are whole numbers; the margin is the solver's rounding.
  return std::max(least, static_cast<std::int64_t>(std::ceil(*bound - 1e-6)));
}

void require_correct(const IntegerProblem& problem, const Values& values) {
  const auto faults = check_solution(problem, values);
  if (!faults.empty()) {
    throw std::logic_error("the solver's solution is wrong: " + faults.front());
  }
}

Solution solution_of(const CpResponse& response, const IntegerProblem& problem) {
  Solution solution{.status = status_of(response)};
  if (solution.status == SolveStatus::Infeasible) {
    return solution;
  }
  if (problem.objective()) {
    solution.bound = bound_of(response, problem);
  }
  if (solution.status == SolveStatus::Unknown) {
    return solution;
  }
  require_correct(problem, response.values);
  solution.values = response.values;
  if (problem.objective()) {
    solution.objective = sum_of(*problem.objective(), response.values);
    // The solver also calls optimal what is merely within the gap asked for.
    solution.status =
        solution.bound == solution.objective ? SolveStatus::Optimal : SolveStatus::Feasible;
  }
  return solution;
}

// As its wheel has it.
constexpr auto kSolverFile = "ortools/.libs/libortools.so.9";

template <class Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Solution Solver::solve(const IntegerProblem& problem, const SolveLimits& limits) const {
  const std::string model = write_cp_model(problem);
  const std::string parameters = write_sat_parameters(limits);
  const Environment environment(new_environment_(), end_environment_);
  void* bytes = nullptr;
  int size = 0;
  {
    const std::stop_callback stopping(limits.stop, [&] { stop_search_(environment.get()); });
    solve_(environment.get(), model.data(), size_of(model), parameters.data(), size_of(parameters),
           &bytes, &size);
  }
  const Buffer owner(bytes, &std::free);
  return solution_of(
      read_cp_response({static_cast<const char*>(bytes), static_cast<std::size_t>(size)}), problem);
}

std::variant<Solver, std::string> load_solver(std::span<const std::filesystem::path> folders) {
  std::error_code unreadable;
  const auto folder = std::ranges::find_if(folders, [&](const auto& one) {
    return std::filesystem::exists(one / kSolverFile, unreadable);
  });
  if (folder == folders.end()) return "OR-Tools is not there";
  const auto file = *folder / kSolverFile;
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return fmt::format("OR-Tools cannot be loaded: {}", ::dlerror());
  Solver solver;
  if (find_function(library, "SolveCpNewEnv", solver.new_environment_) &&
      find_function(library, "SolveCpDestroyEnv", solver.end_environment_) &&
      find_function(library, "SolveCpStopSearch", solver.stop_search_) &&
      find_function(library, "SolveCpInterruptible", solver.solve_)) {
    return solver;
  }
  return fmt::format("{} has no C interface of CP-SAT", file.string());
}

}  // namespace meshwright

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/solver/integer_problem.h"
#include "planner/solver/solver.h"

// The messages of CP-SAT's C interface, in protocol buffer encoding.
namespace meshwright {

std::string write_cp_model(const IntegerProblem& problem);
std::string write_sat_parameters(const SolveLimits& limits);

// A CpSolverResponse as it came; a field that was not sent has its default there.
struct CpResponse {
  enum class Status { Unknown = 0, ModelInvalid = 1, Feasible = 2, Infeasible = 3, Optimal = 4 };

  Status status = Status::Unknown;
  Values values;
  std::optional<double> bound;
  std::string info;
};

CpResponse read_cp_response(std::string_view message);

}  // namespace meshwright

#include "planner/search/solved_sets.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

namespace meshwright {
namespace {

// Seconds as whole numbers: so many are all of the layer's. Products with 0 and 1 add up to no
// more, far below what the solver keeps exact.
constexpr double kAllTicks = 1e12;

class RerunProblem {
 public:
  explicit RerunProblem(const std::vector<LayerOp>& ops) : ops_(ops) {
    double all = 0;
    for (const LayerOp& op : ops) all += op.seconds;
    tick_ = std::max(all, 1e-30) / kAllTicks;
    for (std::size_t op = 0; op < ops.size(); ++op) runs_.push_back(problem_.add_boolean());
    std::vector<Term> objective;
    for (std::size_t op = 0; op < ops.size(); ++op) {
      objective.push_back({runs_[op], std::llround(ops[op].seconds / tick_)});
      for (const std::size_t input : ops[op].inputs) {
        if (ops[input].kept > Bytes()) continue;
        problem_.add_linear({{runs_[op], 1}, {runs_[input], -1}}, at_most(0));
      }
    }
    problem_.minimize(objective);
  }

  std::optional<SolvedSet> solved(Bytes most, const Solver& solver,
                                  const SolveLimits& limits) const {
    IntegerProblem problem = problem_;
    std::vector<Term> dropped;
    std::int64_t all = 0;
    for (std::size_t op = 0; op < ops_.size(); ++op) {
      if (ops_[op].kept == Bytes()) continue;
      dropped.push_back({runs_[op], ops_[op].kept.value()});
      all += ops_[op].kept.value();
    }
    problem.add_linear(dropped, at_least(all - most.value()));
    const Solution solution = solver.solve(problem, limits);
    if (!solution.values) return std::nullopt;
    std::vector<std::size_t> chosen;
    for (std::size_t op = 0; op < ops_.size(); ++op) {
      if (ops_[op].kept > Bytes() && (*solution.values)[op] == 1) chosen.push_back(op);
    }
    SolvedSet found{kept_set(ops_, std::move(chosen)), 0};
    found.least_seconds = found.set.seconds;
    if (solution.status != SolveStatus::Optimal) {
      const double bound = static_cast<double>(*solution.bound) * tick_;
      found.least_seconds = std::min(found.least_seconds, bound);
    }
    return found;
  }

 private:
  const std::vector<LayerOp>& ops_;
  IntegerProblem problem_;
  std::vector<VariableId> runs_;
  double tick_ = 0;
};

}  // namespace

std::vector<SolvedSet> solved_sets(const std::vector<LayerOp>& ops,
                                   const std::vector<Bytes>& most_bytes, const Solver& solver,
                                   const SolveLimits& limits) {
  const RerunProblem problem(ops);
  std::vector<SolvedSet> sets;
  for (const Bytes most : most_bytes) {
    if (auto found = problem.solved(most, solver, limits)) sets.push_back(std::move(*found));
  }
  return sets;
}

}  // namespace meshwright

#include "planner/solver/check_solution.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace meshwright {

namespace {

bool contains(Range range, std::int64_t value) {
  return range.least <= value && value <= range.most;
}

// Says what is wrong with one constraint under fixed values; none: it holds.
class Checker {
 public:
  Checker(const IntegerProblem& problem, const Values& values)
      : problem_(problem), values_(values) {}

  std::optional<std::string> operator()(const LinearConstraint& linear) const {
    if (!std::ranges::all_of(linear.only_if, [&](Literal l) { return is_true(l); })) {
      return std::nullopt;
    }
    std::int64_t sum = 0;
    for (const Term& term : linear.terms) {
      sum += term.factor * values_[term.variable.index()];
    }
    if (contains(linear.range, sum)) {
      return std::nullopt;
    }
    return fmt::format("the sum {} is not in {}..{}", sum, linear.range.least, linear.range.most);
  }

  std::optional<std::string> operator()(const ChoiceConstraint& choice) const {
    const auto chosen =
        std::ranges::count_if(choice.literals, [&](Literal l) { return is_true(l); });
    if (chosen == 1 || (chosen == 0 && choice.none_allowed)) {
      return std::nullopt;
    }
    return fmt::format("{} of {} alternatives are chosen", chosen, choice.literals.size());
  }

  std::optional<std::string> operator()(const NoOverlapConstraint& no_overlap) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> times;
    for (const IntervalId id : no_overlap.intervals) {
      const Interval& interval = problem_.intervals()[id.index()];
      if (!interval.only_if || is_true(*interval.only_if)) {
        const std::int64_t start = values_[interval.start.index()];
        times.emplace_back(start, start + interval.size);
      }
    }
    std::ranges::sort(times);
    for (std::size_t i = 1; i < times.size(); ++i) {
      if (times[i].first < times[i - 1].second) {
        return fmt::format("an interval starts at {}, before another ends at {}", times[i].first,
                           times[i - 1].second);
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> operator()(const ReservoirConstraint& reservoir) const {
    std::map<std::int64_t, std::int64_t> changes;
    for (const LevelChange& change : reservoir.changes) {
      changes[values_[change.time.index()] + change.delay] += change.change;
    }
    std::int64_t level = 0;
    for (const auto& [time, change] : changes) {
      level += change;
      if (!contains(reservoir.level, level)) {
        return fmt::format("the level is {} at time {}, not in {}..{}", level, time,
                           reservoir.level.least, reservoir.level.most);
      }
    }
    return std::nullopt;
  }

 private:
  bool is_true(Literal literal) const {
    return (values_[literal.variable.index()] == 1) != literal.negated;
  }

  const IntegerProblem& problem_;
  const Values& values_;
};

}  // namespace

std::vector<std::string> check_solution(const IntegerProblem& problem, const Values& values) {
  const auto& variables = problem.variables();
  if (values.size() != variables.size()) {
    return {fmt::format("{} values for {} variables", values.size(), variables.size())};
  }
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!contains(variables[i], values[i])) {
      faults.push_back(fmt::format("variable {} is {}, not in {}..{}", i, values[i],
                                   variables[i].least, variables[i].most));
    }
  }
  const Checker checker(problem, values);
  for (std::size_t i = 0; i < problem.constraints().size(); ++i) {
    if (const auto fault = std::visit(checker, problem.constraints()[i])) {
      faults.push_back(fmt::format("constraint {}: {}", i, *fault));
    }
  }
  return faults;
}

}  // namespace meshwright

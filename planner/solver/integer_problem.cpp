#include "planner/solver/integer_problem.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace meshwright {

namespace {

constexpr std::int64_t kLargestExact = std::int64_t{1} << 53;

}  // namespace

bool IntegerProblem::is_boolean(Literal literal) const {
  if (!is_known(literal.variable)) {
    return false;
  }
  const Range range = variables_[literal.variable.index()];
  return 0 <= range.least && range.most <= 1;
}

// In doubles, because the product may leave 64 bits; their rounding does not matter this close to
// a limit that leaves ten bits unused.
bool IntegerProblem::is_exact(const std::vector<Term>& terms) const {
  double largest = 0;
  for (const auto& [variable, factor] : terms) {
    if (!is_known(variable)) {
      return false;
    }
    const Range range = variables_[variable.index()];
    largest += std::fabs(static_cast<double>(factor)) *
               static_cast<double>(std::max(std::abs(range.least), std::abs(range.most)));
  }
  return largest < static_cast<double>(kLargestExact);
}

VariableId IntegerProblem::add_variable(Range range) {
  assert(range.least <= range.most);
  assert(-kLargestExact < range.least && range.most < kLargestExact);
  variables_.push_back(range);
  suggestions_.emplace_back();
  return VariableId(variables_.size() - 1);
}

void IntegerProblem::add_linear(std::vector<Term> terms, Range range,
                                std::vector<Literal> only_if) {
  assert(is_exact(terms) && range.least <= range.most);
  assert(std::ranges::all_of(only_if, [&](Literal literal) { return is_boolean(literal); }));
  constraints_.push_back(LinearConstraint{std::move(terms), range, std::move(only_if)});
}

void IntegerProblem::add_exactly_one(std::vector<Literal> literals) {
  assert(std::ranges::all_of(literals, [&](Literal literal) { return is_boolean(literal); }));
  constraints_.push_back(ChoiceConstraint{std::move(literals), false});
}

void IntegerProblem::add_at_most_one(std::vector<Literal> literals) {
  assert(std::ranges::all_of(literals, [&](Literal literal) { return is_boolean(literal); }));
  constraints_.push_back(ChoiceConstraint{std::move(literals), true});
}

IntervalId IntegerProblem::add_interval(Interval interval) {
  assert(is_known(interval.start) && 0 < interval.size && interval.size < kLargestExact);
  assert(!interval.only_if || is_boolean(*interval.only_if));
  intervals_.push_back(interval);
  return IntervalId(intervals_.size() - 1);
}

void IntegerProblem::add_no_overlap(std::vector<IntervalId> intervals) {
  assert(std::ranges::all_of(intervals,
                             [&](IntervalId id) { return id.index() < intervals_.size(); }));
  constraints_.push_back(NoOverlapConstraint{std::move(intervals)});
}

void IntegerProblem::add_reservoir(std::vector<LevelChange> changes, Range level) {
  assert(level.least <= 0 && 0 <= level.most);
  assert(std::ranges::all_of(changes, [&](const LevelChange& c) { return is_known(c.time); }));
  constraints_.push_back(ReservoirConstraint{std::move(changes), level});
}

void IntegerProblem::minimize(std::vector<Term> objective) {
  assert(is_exact(objective));
  objective_ = std::move(objective);
}

void IntegerProblem::suggest(VariableId variable, std::int64_t value) {
  assert(is_known(variable));
  suggestions_[variable.index()] = value;
}

std::int64_t sum_of(const std::vector<Term>& terms, const Values& values) {
  std::int64_t sum = 0;
  for (const auto& [variable, factor] : terms) {
    sum += factor * values[variable.index()];
  }
  return sum;
}

}  // namespace meshwright

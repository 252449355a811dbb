#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "costmodel/base/ids.h"

namespace meshwright {

using VariableId = Id<struct VariableTag>;
using IntervalId = Id<struct IntervalTag>;

// Both ends belong to it. kNoLimit on either side leaves that side open (constraints only).
struct Range {
  std::int64_t least = 0;
  std::int64_t most = 0;
  bool operator==(const Range&) const = default;
};
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
constexpr Range at_most(std::int64_t most) { return {-kNoLimit, most}; }
constexpr Range at_least(std::int64_t least) { return {least, kNoLimit}; }
constexpr Range exactly(std::int64_t value) { return {value, value}; }

// A 0/1 variable, or its opposite.
struct Literal {
  // Implicit, so that a list of variables reads as a list of literals.
  constexpr Literal(VariableId of, bool opposite = false) : variable(of), negated(opposite) {}
  constexpr Literal operator!() const { return {variable, !negated}; }
  bool operator==(const Literal&) const = default;

  VariableId variable;
  bool negated;
};

struct Term {
  VariableId variable;
  std::int64_t factor = 1;
  bool operator==(const Term&) const = default;
};

// The sum of the terms lies in the range whenever all of `only_if` are true.
struct LinearConstraint {
  std::vector<Term> terms;
  Range range;
  std::vector<Literal> only_if;
  bool operator==(const LinearConstraint&) const = default;
};

struct ChoiceConstraint {
  std::vector<Literal> literals;
  bool none_allowed = false;  // at most one is true, instead of exactly one
  bool operator==(const ChoiceConstraint&) const = default;
};

// The time from `start` to `start + size`; it does not exist while `only_if` is false.
struct Interval {
  VariableId start;
  std::int64_t size = 1;
  std::optional<Literal> only_if;
  bool operator==(const Interval&) const = default;
};

struct NoOverlapConstraint {
  std::vector<IntervalId> intervals;
  bool operator==(const NoOverlapConstraint&) const = default;
};

// At time `time + delay` the level changes by `change`.
struct LevelChange {
  VariableId time;
  std::int64_t delay = 0;
  std::int64_t change = 0;
  bool operator==(const LevelChange&) const = default;
};

// A level that starts at 0 and stays in the range; changes at one time happen together.
struct ReservoirConstraint {
  std::vector<LevelChange> changes;
  Range level;
  bool operator==(const ReservoirConstraint&) const = default;
};

using Constraint =
    std::variant<LinearConstraint, ChoiceConstraint, NoOverlapConstraint, ReservoirConstraint>;

// The value of each variable, in the order the variables were added.
using Values = std::vector<std::int64_t>;

// An optimization problem over bounded integers. Every sum of |factor| times the largest absolute
// value of its variable stays below 2^53, the largest numbers the solver keeps exact: callers scale
// seconds and bytes to that. What breaks a rule stated here is a bug of the caller (assert).
class IntegerProblem {
 public:
  VariableId add_variable(Range range);
  VariableId add_boolean() { return add_variable({0, 1}); }

  void add_linear(std::vector<Term> terms, Range range, std::vector<Literal> only_if = {});
  void add_exactly_one(std::vector<Literal> literals);
  void add_at_most_one(std::vector<Literal> literals);

  IntervalId add_interval(Interval interval);  // size is positive
  void add_no_overlap(std::vector<IntervalId> intervals);
  void add_reservoir(std::vector<LevelChange> changes, Range level);  // level contains 0

  void minimize(std::vector<Term> objective);
  // Where the search may start; need not be a solution, nor name every variable.
  void suggest(VariableId variable, std::int64_t value);

  const std::vector<Range>& variables() const { return variables_; }
  const std::vector<Interval>& intervals() const { return intervals_; }
  const std::vector<Constraint>& constraints() const { return constraints_; }
  const std::optional<std::vector<Term>>& objective() const { return objective_; }
  const std::vector<std::optional<std::int64_t>>& suggestions() const { return suggestions_; }

  bool operator==(const IntegerProblem&) const = default;

 private:
  bool is_known(VariableId variable) const { return variable.index() < variables_.size(); }
  bool is_boolean(Literal literal) const;
  bool is_exact(const std::vector<Term>& terms) const;

  std::vector<Range> variables_;
  std::vector<Interval> intervals_;
  std::vector<Constraint> constraints_;
  std::optional<std::vector<Term>> objective_;
  std::vector<std::optional<std::int64_t>> suggestions_;
};

// The sum of the terms under these values.
std::int64_t sum_of(const std::vector<Term>& terms, const Values& values);

}  // namespace meshwright

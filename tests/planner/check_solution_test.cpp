#include "planner/solver/check_solution.h"

#include <catch2/catch.hpp>

namespace meshwright {

using Faults = std::vector<std::string>;

TEST_CASE("values outside their ranges and missing values are found") {
  IntegerProblem problem;
  problem.add_variable({0, 5});
  problem.add_variable({-2, 2});
  CHECK(check_solution(problem, {5, -2}).empty());
  CHECK(check_solution(problem, {6, -3}) ==
        Faults{"variable 0 is 6, not in 0..5", "variable 1 is -3, not in -2..2"});
  CHECK(check_solution(problem, {5}) == Faults{"1 values for 2 variables"});
}

TEST_CASE("a broken sum is found, unless a condition is false") {
  IntegerProblem problem;
  const VariableId a = problem.add_variable({0, 9});
  const VariableId on = problem.add_boolean();
  problem.add_linear({{a, 2}}, {4, 6}, {on});
  CHECK(check_solution(problem, {3, 1}).empty());
  CHECK(check_solution(problem, {4, 0}).empty());
  CHECK(check_solution(problem, {4, 1}) == Faults{"constraint 0: the sum 8 is not in 4..6"});
}

TEST_CASE("too many and too few chosen alternatives are found") {
  IntegerProblem problem;
  const VariableId a = problem.add_boolean();
  const VariableId b = problem.add_boolean();
  problem.add_exactly_one({a, b});
  problem.add_at_most_one({a, !Literal(b)});
  CHECK(check_solution(problem, {0, 1}).empty());
  CHECK(check_solution(problem, {0, 0}) == Faults{"constraint 0: 0 of 2 alternatives are chosen"});
  CHECK(check_solution(problem, {1, 1}) == Faults{"constraint 0: 2 of 2 alternatives are chosen"});
  CHECK(check_solution(problem, {1, 0}) == Faults{"constraint 1: 2 of 2 alternatives are chosen"});
}

TEST_CASE("overlapping intervals are found, touching ones are not") {
  IntegerProblem problem;
  const VariableId a = problem.add_variable({0, 9});
  const VariableId b = problem.add_variable({0, 9});
  problem.add_no_overlap({problem.add_interval({.start = a, .size = 3}),
                          problem.add_interval({.start = b, .size = 2})});
  CHECK(check_solution(problem, {0, 3}).empty());
  CHECK(check_solution(problem, {2, 0}).empty());
  CHECK(check_solution(problem, {0, 2}) ==
        Faults{"constraint 0: an interval starts at 2, before another ends at 3"});
}

TEST_CASE("a level out of its range is found, changes at one time count together") {
  IntegerProblem problem;
  const VariableId in = problem.add_variable({0, 9});
  const VariableId out = problem.add_variable({0, 9});
  problem.add_reservoir({{.time = in, .delay = 1, .change = 2}, {.time = out, .change = -2}},
                        {0, 2});
  CHECK(check_solution(problem, {0, 1}).empty());
  CHECK(check_solution(problem, {0, 5}).empty());
  CHECK(check_solution(problem, {4, 3}) ==
        Faults{"constraint 0: the level is -2 at time 3, not in 0..2"});
}

}  // namespace meshwright

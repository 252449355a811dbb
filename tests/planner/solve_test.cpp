#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

#include "tests/planner/found_solver.h"
#include "tests/planner/random_problems.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

using Costs = std::vector<std::vector<std::int64_t>>;

Costs random_costs(int size, unsigned seed) {
  std::mt19937 random(seed);
  Costs costs;
  for (int row = 0; row < size; ++row) {
    costs.push_back(random_list(random, size, 100));
  }
  return costs;
}

IntegerProblem assignment_problem(const Costs& costs) {
  IntegerProblem problem;
  std::vector<Term> total;
  std::vector<std::vector<Literal>> rows(costs.size());
  std::vector<std::vector<Literal>> columns(costs.size());
  for (std::size_t row = 0; row < costs.size(); ++row) {
    for (std::size_t column = 0; column < costs.size(); ++column) {
      const VariableId here = problem.add_boolean();
      total.push_back({here, costs[row][column]});
      rows[row].emplace_back(here);
      columns[column].emplace_back(here);
    }
  }
  for (std::size_t i = 0; i < costs.size(); ++i) {
    problem.add_exactly_one(rows[i]);
    problem.add_at_most_one(columns[i]);
  }
  problem.minimize(total);
  return problem;
}

std::int64_t least_cost_of_all_assignments(const Costs& costs) {
  std::vector<std::size_t> column(costs.size());
  std::iota(column.begin(), column.end(), 0);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  do {
    std::int64_t cost = 0;
    for (std::size_t row = 0; row < costs.size(); ++row) {
      cost += costs[row][column[row]];
    }
    least = std::min(least, cost);
  } while (std::ranges::next_permutation(column).found);
  return least;
}

struct Knapsack {
  std::vector<std::int64_t> weights;
  std::vector<std::int64_t> values;
  std::int64_t capacity;
};

Knapsack random_knapsack(int items, unsigned seed) {
  std::mt19937 random(seed);
  return {random_list(random, items, 60), random_list(random, items, 60), 15 * items};
}

IntegerProblem knapsack_problem(const Knapsack& knapsack) {
  IntegerProblem problem;
  std::vector<Term> weight;
  std::vector<Term> loss;
  for (std::size_t i = 0; i < knapsack.weights.size(); ++i) {
    const VariableId packed = problem.add_boolean();
    weight.push_back({packed, knapsack.weights[i]});
    loss.push_back({packed, -knapsack.values[i]});
  }
  problem.add_linear(weight, at_most(knapsack.capacity));
  problem.minimize(loss);
  return problem;
}

std::int64_t best_of_all_packings(const Knapsack& knapsack) {
  std::int64_t best = 0;
  for (std::size_t packing = 0; packing < std::size_t{1} << knapsack.weights.size(); ++packing) {
    std::int64_t weight = 0;
    std::int64_t value = 0;
    for (std::size_t i = 0; i < knapsack.weights.size(); ++i) {
      if (packing >> i & 1) {
        weight += knapsack.weights[i];
        value += knapsack.values[i];
      }
    }
    if (weight <= knapsack.capacity) {
      best = std::max(best, value);
    }
  }
  return best;
}

}  // namespace

TEST_CASE("an assignment is solved to the optimum that trying all assignments finds") {
  for (unsigned seed = 1; seed <= unsigned(cases(10, 100)); ++seed) {
    const int size = 2 + int(seed % 5);
    CAPTURE(seed, size);
    const Costs costs = random_costs(size, seed);
    const Solution solution = solve(assignment_problem(costs));
    CHECK(solution.status == SolveStatus::Optimal);
    CHECK(solution.objective == least_cost_of_all_assignments(costs));
    CHECK(solution.bound == solution.objective);
  }
}

TEST_CASE("a knapsack is solved to the optimum that trying all packings finds") {
  for (unsigned seed = 1; seed <= unsigned(cases(10, 100)); ++seed) {
    const int items = 6 + int(seed % 7);
    CAPTURE(seed, items);
    const Knapsack knapsack = random_knapsack(items, seed);
    const Solution solution = solve(knapsack_problem(knapsack));
    CHECK(solution.status == SolveStatus::Optimal);
    CHECK(solution.objective == -best_of_all_packings(knapsack));
    CHECK(solution.bound == solution.objective);
  }
}

TEST_CASE("a constraint with conditions holds only when all of them are true") {
  IntegerProblem problem;
  const VariableId fast = problem.add_boolean();
  const VariableId large = problem.add_boolean();
  const VariableId time = problem.add_variable({0, 100});
  problem.add_linear({{time}}, at_least(10));
  problem.add_linear({{time}}, at_least(60), {!Literal(fast)});
  problem.add_linear({{time}}, at_least(30), {fast, large});
  problem.minimize({{time}, {large, -15}});
  // Slow costs 60; fast and large 30 - 15; fast and small 10.
  CHECK(solve(problem).values == Values{1, 0, 10});
}

TEST_CASE("an infeasible problem is an answer") {
  IntegerProblem problem;
  const VariableId a = problem.add_variable({0, 5});
  const VariableId b = problem.add_variable({0, 5});
  problem.add_linear({{a}, {b}}, exactly(11));
  problem.minimize({{a}});
  CHECK(solve(problem) == Solution{.status = SolveStatus::Infeasible});
}

TEST_CASE("without an objective any solution is the answer and there is no bound") {
  IntegerProblem problem;
  const VariableId a = problem.add_variable({-7, 7});
  problem.add_linear({{a, 3}}, exactly(-12));
  CHECK(solve(problem) == Solution{.status = SolveStatus::Optimal, .values = Values{-4}});
}

TEST_CASE("an optimum of zero has the bound zero, though a zero is not sent") {
  IntegerProblem problem;
  const VariableId a = problem.add_variable({-7, 7});
  problem.add_linear({{a}}, at_least(0));
  problem.minimize({{a}});
  const Solution solution = solve(problem);
  CHECK(solution.status == SolveStatus::Optimal);
  CHECK(solution.objective == 0);
  CHECK(solution.bound == 0);
}

TEST_CASE("a problem without variables has the empty solution") {
  CHECK(solve({}) == Solution{.status = SolveStatus::Optimal, .values = Values{}});
}

TEST_CASE("a wrong suggestion costs no correctness") {
  const Knapsack knapsack = random_knapsack(10, 5);
  IntegerProblem problem = knapsack_problem(knapsack);
  problem.suggest(VariableId(0), 1);
  problem.suggest(VariableId(1), 7);
  CHECK(solve(problem).objective == -best_of_all_packings(knapsack));
}

}  // namespace meshwright

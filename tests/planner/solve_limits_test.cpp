#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "planner/solver/check_solution.h"
#include "tests/planner/found_solver.h"
#include "tests/planner/random_problems.h"

namespace meshwright {
namespace {

// Far beyond what can be solved, whatever the machine.
IntegerProblem endless_problem() { return market_split(6, 50, 1); }

bool is_early(SolveStatus status) {
  return status == SolveStatus::Feasible || status == SolveStatus::Unknown;
}

}  // namespace

TEST_CASE("when the work limit is reached, the best solution and its bound come back") {
  const IntegerProblem problem = endless_problem();
  const Solution solution = solve(problem, {.deterministic_time = 0.5});
  REQUIRE(solution.status == SolveStatus::Feasible);
  CHECK(check_solution(problem, *solution.values).empty());
  CHECK(*solution.bound < *solution.objective);
  CHECK(*solution.bound >= 0);
}

TEST_CASE("when the clock runs out, the answer says that nothing is proven") {
  const Solution solution = solve(endless_problem(), {.wall_time = 0.2_s});
  REQUIRE(is_early(solution.status));
  CHECK(solution.values.has_value() == (solution.status == SolveStatus::Feasible));
  if (solution.objective) {
    CHECK(*solution.bound <= *solution.objective);
  }
}

TEST_CASE("within the gap asked for, a solution is feasible and its bound says how good it is") {
  const Solution solution = solve(market_split(2, 10, 3), {.relative_gap = 10.0});
  REQUIRE(solution.status == SolveStatus::Feasible);
  CHECK(*solution.bound < *solution.objective);
}

TEST_CASE("equal calls give identical answers") {
  const SolveLimits limits{.deterministic_time = 0.3};
  const Solution first = solve(endless_problem(), limits);
  CHECK(first.status == SolveStatus::Feasible);
  CHECK(solve(endless_problem(), limits) == first);
}

TEST_CASE("a search stops when another thread asks for it", "[threads]") {
  std::stop_source source;
  const std::jthread asking([&source] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    source.request_stop();
  });
  const Solution solution = solve(endless_problem(), {.stop = source.get_token()});
  CHECK(source.stop_requested());
  CHECK(is_early(solution.status));
}

TEST_CASE("a search that is stopped before it starts returns", "[threads]") {
  std::stop_source source;
  source.request_stop();
  CHECK(is_early(solve(endless_problem(), {.stop = source.get_token()}).status));
}

TEST_CASE("two searches at once do not stop or change each other", "[threads]") {
  const SolveLimits limits{.deterministic_time = 0.1};
  const Solution alone = solve(endless_problem(), limits);
  std::stop_source source;
  Solution stopped;
  std::jthread other([&] { stopped = solve(endless_problem(), {.stop = source.get_token()}); });
  const Solution together = solve(endless_problem(), limits);
  source.request_stop();
  other.join();
  CHECK(together == alone);
  CHECK(is_early(stopped.status));
}

}  // namespace meshwright

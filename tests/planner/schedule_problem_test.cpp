#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/planner/found_solver.h"
#include "tests/planner/random_problems.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

struct Job {
  std::int64_t size;
  std::int64_t weight;
};

std::vector<Job> random_jobs(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Job> jobs;
  for (int i = 0; i < 5; ++i) {
    jobs.push_back({1 + random_up_to(random, 9), 1 + random_up_to(random, 9)});
  }
  return jobs;
}

// The jobs' start times, to be followed by what keeps the jobs apart.
std::vector<VariableId> add_jobs(IntegerProblem& problem, const std::vector<Job>& jobs) {
  std::vector<VariableId> starts;
  std::vector<Term> objective;
  for (const Job& job : jobs) {
    starts.push_back(problem.add_variable({0, 100}));
    objective.push_back({starts.back(), job.weight});
  }
  problem.minimize(objective);
  return starts;
}

// Smith's rule (1956): on one machine the weighted sum of start times is least in the order of
// size over weight.
std::int64_t least_weighted_start(std::vector<Job> jobs) {
  std::ranges::sort(
      jobs, [](const Job& a, const Job& b) { return a.size * b.weight < b.size * a.weight; });
  std::int64_t time = 0;
  std::int64_t sum = 0;
  for (const Job& job : jobs) {
    sum += job.weight * time;
    time += job.size;
  }
  return sum;
}

}  // namespace

TEST_CASE("intervals that do not overlap are scheduled as Smith's rule says") {
  for (unsigned seed = 1; seed <= unsigned(cases(5, 50)); ++seed) {
    CAPTURE(seed);
    const std::vector<Job> jobs = random_jobs(seed);
    IntegerProblem problem;
    const auto starts = add_jobs(problem, jobs);
    std::vector<IntervalId> intervals;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      intervals.push_back(problem.add_interval({.start = starts[i], .size = jobs[i].size}));
    }
    problem.add_no_overlap(intervals);
    const Solution solution = solve(problem);
    CHECK(solution.status == SolveStatus::Optimal);
    CHECK(solution.objective == least_weighted_start(jobs));
  }
}

TEST_CASE("a reservoir with room for one job at a time is one machine") {
  for (unsigned seed = 1; seed <= unsigned(cases(5, 50)); ++seed) {
    CAPTURE(seed);
    const std::vector<Job> jobs = random_jobs(seed);
    IntegerProblem problem;
    const auto starts = add_jobs(problem, jobs);
    std::vector<LevelChange> changes;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      changes.push_back({.time = starts[i], .change = 1});
      changes.push_back({.time = starts[i], .delay = jobs[i].size, .change = -1});
    }
    problem.add_reservoir(changes, {0, 1});
    const Solution solution = solve(problem);
    CHECK(solution.status == SolveStatus::Optimal);
    CHECK(solution.objective == least_weighted_start(jobs));
  }
}

TEST_CASE("an interval whose condition is false takes no time") {
  IntegerProblem problem;
  const VariableId first = problem.add_variable({0, 3});
  const VariableId second = problem.add_variable({0, 3});
  const VariableId present = problem.add_boolean();
  problem.add_no_overlap({problem.add_interval({.start = first, .size = 4, .only_if = present}),
                          problem.add_interval({.start = second, .size = 4})});
  problem.minimize({{present, -1}});
  CHECK(solve(problem).objective == 0);
}

}  // namespace meshwright

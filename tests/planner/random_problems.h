#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "planner/solver/integer_problem.h"

namespace meshwright {

// The same numbers for the same seed with every standard library, unlike its distributions.
inline std::int64_t random_up_to(std::mt19937& random, std::int64_t most) {
  return static_cast<std::int64_t>(random()) % (most + 1);
}

inline std::vector<std::int64_t> random_list(std::mt19937& random, int size, std::int64_t most) {
  std::vector<std::int64_t> list;
  for (int i = 0; i < size; ++i) {
    list.push_back(random_up_to(random, most));
  }
  return list;
}

// Market split: choose items so that several weighted sums each meet half their total; minimize
// the sum of deviations. Solutions are everywhere and the best is beyond proof already for small
// sizes (Cornuejols and Dawande 1998), which makes it the instance that no limit can outrun.
inline IntegerProblem market_split(int sums, int items, unsigned seed) {
  std::mt19937 random(seed);
  IntegerProblem problem;
  std::vector<VariableId> chosen;
  for (int i = 0; i < items; ++i) {
    chosen.push_back(problem.add_boolean());
  }
  std::vector<Term> deviations;
  for (int sum = 0; sum < sums; ++sum) {
    const VariableId above = problem.add_variable({0, 100 * items});
    const VariableId below = problem.add_variable({0, 100 * items});
    std::vector<Term> terms = {{above, -1}, {below, 1}};
    std::int64_t total = 0;
    for (const VariableId item : chosen) {
      const std::int64_t weight = random_up_to(random, 99);
      terms.push_back({item, weight});
      total += weight;
    }
    problem.add_linear(terms, exactly(total / 2));
    deviations.push_back({above});
    deviations.push_back({below});
  }
  problem.minimize(deviations);
  return problem;
}

}  // namespace meshwright

#include <catch2/catch.hpp>
#include <iostream>

#include "tests/laws/training.h"
#include "tests/simulator/random_divisions.h"
#include "tests/simulator/small_models.h"
#include "tests/test_scale.h"
#include "tests/user_costs.h"

namespace meshwright {
namespace {

// Of any family; every third one with dropout.
Model any_small_model(std::uint32_t seed) {
  SmallModel small;
  small.family = kSmallFamilies.at(seed % kSmallFamilies.size());
  small.dropout = seed % 3 == 0 ? 0.1 : 0.0;
  small.bias = seed % 2 == 0;
  small.kv_heads = 3;
  return small_model(small);
}

}  // namespace

TEST_CASE("any division of ops over several tensor axes trains like one device") {
  const UserCosts costs(test_cluster());
  std::int64_t planned = 0;
  double worst = 0;
  for (std::uint32_t seed = 0; seed < static_cast<std::uint32_t>(cases(40, 400)); ++seed) {
    CAPTURE(seed);
    const Model model = any_small_model(seed);
    RandomDivision division(model, seed);
    const BatchChoice batch{2 * division.replicas(), 8, Precision::FP64};
    const Plan plan = division.plan(batch, test_cluster(), costs);
    const auto problems = check_plan(plan, model, test_cluster());
    CAPTURE(problems);
    if (!problems.empty()) continue;  // such as pieces of a split tensor that have steps to go
    ++planned;
    PlanChoices one;
    one.microbatch = batch.global_batch;
    const Trained expected = train(model, resolve(one, batch, model, test_cluster(), costs), 2);
    const Trained found = train(model, plan, 2);
    const double error = std::max({largest_error(expected.losses, found.losses),
                                   largest_error(expected.norms, found.norms),
                                   largest_error(expected.gradients, found.gradients),
                                   largest_weight_error(expected, found)});
    worst = std::max(worst, error);
    CHECK(error < 1e-10);
  }
  std::cout << planned << " divisions, largest error " << worst << "\n";
  CHECK(planned > 0);
}

}  // namespace meshwright

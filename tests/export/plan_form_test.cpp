#include "simulator/choices/plan_form.h"

#include <catch2/catch.hpp>

#include "simulator/plan/plan_file.h"
#include "tests/planner/random_choices.h"
#include "tests/test_scale.h"

namespace meshwright {

TEST_CASE("a plan's choices make the plan again") {
  const Bench bench("gpt2", "h100:2x8", "megatron-core");
  const BatchChoice batch{.global_batch = 32, .sequence = 512, .precision = Precision::BF16};
  const PlanChoices defaults = choices_of(bench.software.plan, batch.precision);
  const std::uint32_t seed = 11;
  CAPTURE(seed);
  RandomChoices random(seed);
  int found = 0;
  for (int i = 0; found < cases(25, 400); ++i) {
    REQUIRE(i < 100'000);
    const PlanChoices drawn = random.draw(defaults);
    const auto planned = plan_of(drawn, batch, bench.setting);
    const auto* plan = std::get_if<Plan>(&planned);
    if (!plan) continue;
    ++found;
    CAPTURE(to_text(drawn));
    const auto choices = choices_of(*plan, bench.model, bench.cluster, *bench.setting.costs);
    REQUIRE(choices);
    CAPTURE(to_text(*choices));
    CHECK(resolve(*choices, batch, bench.model, bench.cluster, *bench.setting.costs) == *plan);
  }
}

TEST_CASE("a plan that no short form says has none") {
  const Bench bench("gpt2", "h100", "megatron-core");
  const BatchChoice batch{.global_batch = 8, .sequence = 512, .precision = Precision::BF16};
  auto plan = std::get<Plan>(plan_of(PlanChoices{.dp = 4, .pp = 2}, batch, bench.setting));
  REQUIRE(choices_of(plan, bench.model, bench.cluster, *bench.setting.costs));
  Plan other = plan;
  std::swap(other.order[0].front(), other.order[0].back());
  CHECK_FALSE(choices_of(other, bench.model, bench.cluster, *bench.setting.costs));
  other = plan;
  other.recompute = {{.first_op = 3, .end_op = 5}};
  CHECK_FALSE(choices_of(other, bench.model, bench.cluster, *bench.setting.costs));
}

}  // namespace meshwright

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "planner/search/search.h"
#include "tests/planner/random_choices.h"
#include "tests/planner/random_memory.h"
#include "tests/planner/two_stages.h"
#include "tests/test_scale.h"

namespace meshwright {

TEST_CASE("division and recomputation together are no slower than one after the other") {
  const auto questions = static_cast<std::uint32_t>(cases(3, 60));
  int compared = 0;
  for (std::uint32_t seed = 1; seed <= questions; ++seed) {
    RandomChoices random(seed);
    const auto name = random.one_of<std::string>({"gpt3-1.3b", "llama3-8b", "gpt3-6.7b"});
    const auto cluster = random.one_of<std::string>({"h100:1x4", "a100-80:1x8", "a100-40:2x2"});
    const auto software = random.one_of<std::string>({"none", "megatron-core", "fsdp"});
    const Bench bench(name, cluster, software);
    const Model few = with_layers(bench.model, random.one_of<std::int64_t>({4, 6}));
    const Setting setting = make_setting(few, bench.cluster, bench.software, shipped_fits());
    SearchQuestion question{.batch = {random.one_of<std::int64_t>({8, 16}), 1024, Precision::BF16},
                            .defaults = choices_of(setting.defaults, Precision::BF16)};
    question.forbids = {{"offload", {}}};
    question.most_simulated = 100'000;
    question.max_memory = memory_about_a_plan(random, question, setting, {0.5, 0.6, 0.7, 0.8, 0.9});
    INFO(fmt::format("seed {}: {} on {} as {}, batch {}, {} bytes", seed, name, cluster, software,
                     question.batch.global_batch, question.max_memory.value_or(Bytes()).value()));
    const SearchResult joint = search(question, setting);
    const TwoStages staged = two_stages(question, setting, bench.software);
    if (!staged.plan) continue;
    ++compared;
    REQUIRE(!joint.plans.empty());
    CHECK(joint.complete);
    CHECK(joint.bound <= staged.plan->report.step);
    CHECK((1 - question.gap) * joint.plans.front().report.step <= staged.plan->report.step);
  }
  CHECK(compared > 0);
}

}  // namespace meshwright

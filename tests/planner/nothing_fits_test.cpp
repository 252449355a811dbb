#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "planner/search/search.h"
#include "tests/planner/all_plans.h"
#include "tests/planner/drawn_questions.h"
#include "tests/planner/random_choices.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

SearchQuestion question_of(const Bench& bench, std::int64_t batch, std::int64_t sequence) {
  return {.batch = {batch, sequence, Precision::BF16},
          .defaults = choices_of(bench.setting.defaults, Precision::BF16)};
}

// What simulating its choices says.
void check_nearest(const SearchResult& result, const SearchQuestion& question,
                   const Setting& setting) {
  REQUIRE(result.nearest.has_value());
  const Nearest& nearest = *result.nearest;
  INFO(to_text(nearest.choices));
  const auto made = plan_of(nearest.choices, question.batch, setting);
  REQUIRE(std::holds_alternative<Plan>(made));
  const Report report = predict(std::get<Plan>(made), setting).report;
  CHECK(nearest.needed == Report::needed(report.fullest()));
  CHECK(nearest.host.has_value() == (report.host && report.host->is_too_much()));
  if (nearest.host) return;
  for (const Candidate& one : result.candidates) {
    if (one.needed) CHECK(nearest.needed <= *one.needed);
  }
}

}  // namespace

TEST_CASE("a search that nothing fits says what comes nearest, and pins that leave nothing why") {
  const Bench bench("llama3-70b", "rtx4090:1x2", "megatron-core");
  SearchQuestion question = question_of(bench, 8, 4096);
  question.forbids = {{"offload", {}}};
  const SearchResult result = search(question, bench.setting);
  CHECK(result.plans.empty());
  REQUIRE(result.nearest.has_value());
  CHECK(result.nearest->needed > result.nearest->capacity);
  question.pins = {{"dp", "3"}};
  const SearchResult refused = search(question, bench.setting);
  CHECK(refused.plans.empty());
  REQUIRE(refused.contradiction.has_value());
  CHECK(refused.contradiction->pins.size() == 1);
  CHECK(refused.contradiction->forbids.empty());
}

TEST_CASE(
    "where devices have enough and hosts too little memory, the nearest plan says which host") {
  const Bench bench("gpt2", "h100:1x2", "megatron-core");
  Cluster cluster = bench.cluster;
  cluster.node_types.front().host->memory.value = 1_MiB;
  const Setting setting = make_setting(bench.model, cluster, bench.software, shipped_fits());
  SearchQuestion question{.batch = {8, 256, Precision::BF16},
                          .defaults = choices_of(setting.defaults, Precision::BF16)};
  question.pins = {{"offload", "optimizer"}};
  const SearchResult result = search(question, setting);
  CHECK(result.plans.empty());
  REQUIRE(result.nearest.has_value());
  CHECK(result.nearest->needed < result.nearest->capacity);
  REQUIRE(result.nearest->host.has_value());
  CHECK(result.nearest->host->needed > result.nearest->host->capacity);
}

TEST_CASE("the nearest plan is the one that needs least of several kinds that are simulated") {
  const Bench bench("gpt2", "h100:1x8", "megatron-core");
  SearchQuestion question = question_of(bench, 32, 1024);
  question.max_memory = Bytes((1_GiB).value() / 5 * 6);
  const SearchResult result = search(question, bench.setting);
  CHECK(result.plans.empty());
  CHECK(result.counts.too_large > 2);
  check_nearest(result, question, bench.setting);
  // By bounds alone it was one of 2.1 GiB.
  CHECK(result.nearest->needed < Bytes((1_GiB).value() / 2 * 3));
}

// Not proven: of plans that need little by their bounds a handful is simulated.
TEST_CASE("no plan of a small space needs much less than the nearest") {
  int questions = 0;
  for (std::uint32_t seed = 1; seed <= static_cast<std::uint32_t>(cases(8, 100)); ++seed) {
    RandomChoices random(seed);
    const SmallCase one = draw_case(random);
    const Bench bench(one.model, one.cluster, one.software);
    const Model few = with_layers(bench.model, one.layers);
    const Setting setting = make_setting(few, bench.cluster, bench.software, shipped_fits());
    SearchQuestion question = draw_question(random, one, setting, false);
    question.max_memory = 100_MiB;
    INFO(fmt::format("seed {}: {} with {} layers on {} as {}, batch {} x {}", seed, one.model,
                     one.layers, one.cluster, one.software, one.batch, one.sequence));
    const SearchResult result = search(question, setting);
    CHECK(result.plans.empty());
    const std::optional<Bytes> least = least_of_all(question, setting);
    REQUIRE(least.has_value() == (result.nearest && !result.nearest->host));
    if (!least) continue;
    check_nearest(result, question, setting);
    CHECK(result.nearest->needed / *least <= 1.05);
    ++questions;
  }
  CHECK(questions > 0);
}

// A search by time alone bounded half a million sets before it came to one that fits.
TEST_CASE("a plan that fits is found with few tries where there is little room") {
  const Bench bench("mixtral-8x22b", "a100-40:4x8", "megatron-core");
  SearchQuestion question = question_of(bench, 64, 4096);
  std::int64_t bounded = 0;
  const auto watch = [&](const SearchProgress& now) { bounded = now.counts.bounded; };
  const auto found = find_any(question, bench.setting, watch);
  REQUIRE(found.has_value());
  CHECK(found->report.fits == Fit::Yes);
  CHECK(bounded < 5000);
  const auto made = plan_of(found->choices, question.batch, bench.setting);
  CHECK(std::get<Plan>(made) == found->plan);
  CHECK(predict(found->plan, bench.setting).report.step == found->report.step);
  question.threads = 4;
  CHECK(find_any(question, bench.setting)->choices == found->choices);
}

}  // namespace meshwright

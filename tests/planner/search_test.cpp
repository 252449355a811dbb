#include "planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "planner/search/expectation.h"
#include "planner/search/open_sets.h"
#include "tests/planner/all_plans.h"
#include "tests/planner/drawn_questions.h"
#include "tests/planner/random_choices.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

// What the space has besides is no worse than what it has by default.
void check_no_worse_than_default(const SearchResult& wide, SearchQuestion question,
                                 const Setting& setting) {
  question.wide = false;
  const SearchResult plain = search(question, setting);
  if (plain.plans.empty()) return;
  REQUIRE(!wide.plans.empty());
  CHECK(wide.plans.front().report.step <= plain.plans.front().report.step);
  CHECK(wide.bound <= plain.plans.front().report.step);
}

// Whether a plan was found, and is the best of all.
bool check_against_all(std::uint32_t seed, bool wide) {
  RandomChoices random(seed);
  const SmallCase one = draw_case(random);
  const Bench bench(one.model, one.cluster, one.software);
  const Model few = with_layers(bench.model, one.layers);
  const Setting setting = make_setting(few, bench.cluster, bench.software, shipped_fits());
  const SearchQuestion question = draw_question(random, one, setting, wide);
  std::string pins;
  for (const KeyValue& pin : question.pins) pins += " " + pin.key + "=" + *pin.value;
  INFO(fmt::format("seed {}{}: {} with {} layers on {} as {}, batch {} x {}, pins{}", seed,
                   wide ? ", wide" : "", one.model, one.layers, one.cluster, one.software,
                   one.batch, one.sequence, pins));
  const std::optional<Seconds> best = best_of_all(question, setting);
  const SearchResult result = search(question, setting);
  REQUIRE(result.complete);
  REQUIRE(best.has_value() == !result.plans.empty());
  if (!best) {
    // Pins may contradict each other.
    CHECK((result.nearest.has_value() || (wide && result.contradiction)));
    return false;
  }
  CHECK(result.plans.front().report.step == *best);
  CHECK(result.gap == 0);
  CHECK(result.bound == *best);
  if (wide) check_no_worse_than_default(result, question, setting);
  return true;
}

// Seeds one after the other, or the one that is asked for.
void check_seeds(int usual, int full, bool wide) {
  const char* given = std::getenv("MESHWRIGHT_SEARCH_SEED");
  const auto first = static_cast<std::uint32_t>(given ? std::atoi(given) : 1);
  const auto count = static_cast<std::uint32_t>(
      number_from("MESHWRIGHT_SEARCH_CASES", given ? 1 : cases(usual, full)));
  int found = 0;
  for (std::uint32_t seed = first; seed < first + count; ++seed) {
    found += check_against_all(seed, wide) ? 1 : 0;
  }
  CHECK((found > 0 || count == 1));
}

}  // namespace

TEST_CASE("a search without a gap finds what simulating every plan finds") {
  check_seeds(6, 250, false);
}

TEST_CASE("a search of a wide space without a gap finds what simulating every plan finds") {
  check_seeds(6, 250, true);
}

// A question of a size that people ask.
struct Asked {
  Asked(const std::string& model, const std::string& cluster, const std::string& software,
        std::int64_t batch, std::int64_t sequence)
      : bench(model, cluster, software),
        question{.batch = {batch, sequence, Precision::BF16},
                 .defaults = choices_of(bench.setting.defaults, Precision::BF16)} {}
  const Bench bench;
  SearchQuestion question;
};

TEST_CASE("pinning what won gives the same plan, and its own bound") {
  Asked asked("llama3-8b", "h100:2x8", "megatron-core", 64, 4096);
  const SearchResult result = search(asked.question, asked.bench.setting);
  REQUIRE(!result.plans.empty());
  CHECK(result.complete);
  CHECK(result.gap <= 0.01);
  const RankedPlan& first = result.plans.front();
  SearchQuestion pinned = asked.question;
  const std::string text = to_text(first.choices, asked.question.defaults);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::size_t equals = text.find('=', at);
    pinned.pins.push_back(
        {text.substr(at, equals - at), text.substr(equals + 1, end - equals - 1)});
    at = end + 1;
  }
  // What the short form leaves out is pinned to what it stands for.
  for (const char* key : {"zero", "schedule", "sequence_parallel", "recompute", "offload"}) {
    const auto given = [&](const KeyValue& pin) { return pin.key == key; };
    if (std::ranges::any_of(pinned.pins, given)) continue;
    const std::string plain = std::string(key) == "zero"                ? "0"
                              : std::string(key) == "schedule"          ? "1f1b"
                              : std::string(key) == "sequence_parallel" ? "false"
                                                                        : "none";
    pinned.pins.push_back({key, plain});
  }
  if (!first.choices.shard) pinned.forbids.push_back({"shard", std::nullopt});
  const SearchResult again = search(pinned, asked.bench.setting);
  REQUIRE(again.plans.size() == 1);
  CHECK(again.plans.front().plan == first.plan);
  CHECK(again.plans.front().report == first.report);
  CHECK(again.plans.front().bound == first.bound);
  CHECK(first.bound <= first.report.step);
  // The same question has the same answer.
  const SearchResult twice = search(asked.question, asked.bench.setting);
  CHECK(twice.plans.front().plan == first.plan);
  CHECK(twice.counts == result.counts);
}

namespace {

void check_same(const SearchResult& one, const SearchResult& other) {
  CHECK(one.counts == other.counts);
  CHECK(one.bound == other.bound);
  CHECK(one.gap == other.gap);
  CHECK(one.complete == other.complete);
  CHECK(one.space_size == other.space_size);
  const auto same_plan = [](const RankedPlan& a, const RankedPlan& b) {
    return a.choices == b.choices && a.plan == b.plan && a.report == b.report && a.bound == b.bound;
  };
  CHECK(std::ranges::equal(one.plans, other.plans, same_plan));
  const auto same = [](const Candidate& a, const Candidate& b) {
    return a.choices == b.choices && a.bound == b.bound && a.bound_bytes == b.bound_bytes &&
           a.fate == b.fate && a.step == b.step && a.needed == b.needed;
  };
  CHECK(std::ranges::equal(one.candidates, other.candidates, same));
  CHECK(std::ranges::equal(one.open, other.open, same));
}

}  // namespace

TEST_CASE("the same question has the same answer on any number of threads", "[threads]") {
  const auto seeds = static_cast<std::uint32_t>(cases(2, 20));
  for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
    RandomChoices random(seed);
    const auto model = random.one_of<std::string>({"gpt2", "gpt3-1.3b", "mixtral-8x7b"});
    const auto cluster = random.one_of<std::string>({"h100:2x4", "a100-40:1x8", "t4:2x4"});
    const auto software = random.one_of<std::string>({"none", "megatron-core", "fsdp"});
    Asked asked(model, cluster, software, random.one_of<std::int64_t>({8, 12, 16}), 1024);
    asked.question.batch.precision = usual_precision_of(asked.bench.cluster);
    asked.question.gap = random.one_of<double>({0, 0.01, 0.05});
    asked.question.most_simulated = 12;
    INFO(fmt::format("seed {}: {} on {} as {}", seed, model, cluster, software));
    const SearchResult alone = search(asked.question, asked.bench.setting);
    for (const std::size_t threads : {2, 8}) {
      asked.question.threads = threads;
      check_same(alone, search(asked.question, asked.bench.setting));
    }
  }
}

TEST_CASE(
    "who watches a search sees every candidate once, with what it needs where it was simulated") {
  Asked asked("llama3-8b", "h100:2x8", "megatron-core", 64, 4096);
  std::vector<Candidate> seen;
  std::size_t plans = 0;
  const auto watch = [&](const SearchProgress& now) {
    REQUIRE(now.candidates.size() >= seen.size());
    for (const Candidate& one : now.candidates.subspan(seen.size())) seen.push_back(one);
    CHECK(now.plans.size() >= plans);
    plans = now.plans.size();
    if (!now.plans.empty()) CHECK(now.plans.front().report.step == *now.best);
  };
  const SearchResult result = search(asked.question, asked.bench.setting, watch);
  CHECK(plans > 0);
  CHECK(seen.size() <= result.candidates.size());
  for (const Candidate& one : seen) {
    const auto same = [&](const Candidate& other) { return other.choices == one.choices; };
    CHECK(std::ranges::count_if(result.candidates, same) == 1);
    CHECK(one.step.has_value() == one.needed.has_value());
    if (one.needed) CHECK(*one.needed >= one.bound_bytes);
  }
}

namespace {

// Plans that differ from another in one choice, as far as there are such.
std::vector<PlanChoices> neighbours_of(const PlanChoices& won) {
  std::vector<PlanChoices> neighbours;
  const auto add = [&](auto change) {
    neighbours.push_back(won);
    change(neighbours.back());
  };
  for (const int zero : {0, 1, 2, 3}) add([&](PlanChoices& c) { c.zero = zero; });
  for (const Bytes bucket : {25_MiB, 100_MiB, 400_MiB, 1600_MiB}) {
    add([&](PlanChoices& c) { c.bucket = bucket; });
  }
  for (const Recompute kind : {Recompute::None, Recompute::Uniform}) {
    add([&](PlanChoices& c) { c.recompute = {kind}; });
  }
  add([](PlanChoices& c) { c.microbatch *= 2; });
  add([](PlanChoices& c) { c.microbatch = std::max<std::int64_t>(1, c.microbatch / 2); });
  add([](PlanChoices& c) { c.sequence_parallel = !c.sequence_parallel; });
  add([](PlanChoices& c) { c.offload_optimizer = !c.offload_optimizer; });
  add([](PlanChoices& c) { c.place.clear(); });
  for (const std::int64_t more : {-1, 1}) {
    add([&](PlanChoices& c) {
      c.virtual_stages = std::max<std::int64_t>(1, c.virtual_stages + more);
    });
  }
  add([](PlanChoices& c) { c.dp = std::max<std::int64_t>(1, c.dp / 2), c.tp *= 2, c.place = {}; });
  add([](PlanChoices& c) { c.dp = std::max<std::int64_t>(1, c.dp / 2), c.pp *= 2, c.place = {}; });
  add([](PlanChoices& c) { c.tp = std::max<std::int64_t>(1, c.tp / 2), c.dp *= 2, c.place = {}; });
  add([](PlanChoices& c) { c.pp = std::max<std::int64_t>(1, c.pp / 2), c.dp *= 2, c.place = {}; });
  return neighbours;
}

void check_neighbours(const Asked& asked) {
  const SearchResult result = search(asked.question, asked.bench.setting);
  REQUIRE(!result.plans.empty());
  CHECK(result.gap <= 0.01);
  int simulated = 0;
  for (const PlanChoices& choices : neighbours_of(result.plans.front().choices)) {
    const auto made = plan_of(choices, asked.question.batch, asked.bench.setting);
    if (!std::holds_alternative<Plan>(made)) continue;
    const Report report = predict(std::get<Plan>(made), asked.bench.setting).report;
    if (report.fits != Fit::Yes) continue;
    INFO(to_text(choices));
    CHECK(report.step >= result.bound);
    ++simulated;
  }
  CHECK(simulated > 5);
}

}  // namespace

TEST_CASE("no neighbour of what won is faster than the bound") {
  check_neighbours({"gpt3-1.3b", "a100-80:2x8", "megatron-core", 64, 2048});
  if (cases(0, 1) == 0) return;
  for (const char* software : {"megatron-core", "none"}) {
    check_neighbours({"gpt3-175b", "a100-80:512x8", software, 1536, 2048});
    check_neighbours({"gpt3-175b", "h100:512x8", software, 1536, 2048});
    check_neighbours({"llama3-405b", "h100:2048x8", software, 2048, 8192});
    check_neighbours({"llama2-70b", "a100-80:9x8", software, 576, 4096});
  }
}

TEST_CASE("more devices and fewer pins never make the bound longer than a step that was found") {
  for (std::uint32_t seed = 1; seed <= static_cast<std::uint32_t>(cases(1, 60)); ++seed) {
    RandomChoices random(seed);
    const auto model = random.one_of<std::string>({"gpt2", "gpt3-1.3b", "llama3-8b"});
    const auto device = random.one_of<std::string>({"h100", "a100-80", "a100-40"});
    const auto software = random.one_of<std::string>({"none", "megatron-core", "fsdp"});
    const auto batch = random.one_of<std::int64_t>({16, 24, 48, 64});
    const Asked small(model, device + ":1x8", software, batch, 2048);
    const Asked large(model, device + ":2x8", software, batch, 2048);
    const SearchResult few = search(small.question, small.bench.setting);
    const SearchResult many = search(large.question, large.bench.setting);
    SearchQuestion question = large.question;
    question.pins = {{"tp", random.one_of<std::string>({"1", "2", "4"})},
                     {"recompute", random.one_of<std::string>({"none", "full", "selective"})}};
    const SearchResult pinned = search(question, large.bench.setting);
    INFO(fmt::format("seed {}: {} on {} as {}, batch {}", seed, model, device, software, batch));
    if (!few.plans.empty()) CHECK(many.bound <= few.plans.front().report.step);
    if (!pinned.plans.empty()) CHECK(many.bound <= pinned.plans.front().report.step);
  }
}

// A search makes the rest of such plans once.
TEST_CASE("plans of which the bucket alone differs differ in nothing else") {
  int compared = 0;
  for (std::uint32_t seed = 1; seed <= static_cast<std::uint32_t>(cases(40, 1000)); ++seed) {
    RandomChoices random(seed);
    const Drawn drawn = draw_bench(random);
    const Bench bench(drawn.model, drawn.cluster, drawn.software);
    PlanChoices choices = random.draw(choices_of(bench.setting.defaults, Precision::BF16));
    const BatchChoice batch{.global_batch = 4 * choices.dp * choices.microbatch,
                            .sequence = 512,
                            .precision = Precision::BF16};
    const auto one = plan_of(choices, batch, bench.setting);
    choices.bucket = 7_MiB;
    choices.bucket_per_replica = Bytes();
    const auto other = plan_of(choices, batch, bench.setting);
    INFO(fmt::format("seed {}: {}", seed, to_text(choices)));
    REQUIRE(one.index() == other.index());
    if (!std::holds_alternative<Plan>(one)) continue;
    Plan same = std::get<Plan>(one);
    same.bucket = 7_MiB;
    CHECK((same == std::get<Plan>(other)));
    ++compared;
  }
  CHECK(compared > 0);
}

// Of one kind what was simulated needed much more than its bound says.
TEST_CASE(
    "as long as nothing fits, plans of another kind than those that did not are expected to") {
  Node node{.depth = Depth::Plan, .choices = {}, .bound = {Seconds(1), 97_GiB, Bytes()}};
  node.choices.tp = 4;
  Node other = node;
  other.choices.tp = 8;
  Expectation expectation(100_GiB);
  CHECK(!expectation.fits(node));
  expectation.learn_needed(node, 110_GiB);
  CHECK(!expectation.fits(node));
  CHECK(expectation.fits(other));
  expectation.learn_needed(other, 98_GiB);
  CHECK(expectation.fits(other));
  other.choices.tp = 2;
  CHECK(!expectation.fits(other));
}

TEST_CASE("of plans that wait those are looked at as well that need least") {
  Expectation expectation(100_GiB);
  OpenSets open(expectation);
  const auto push = [&](std::int64_t dp, double cost, Bytes bytes) {
    Node node{.depth = Depth::Plan, .choices = {}, .bound = {Seconds(cost), bytes, Bytes()}};
    node.choices.dp = dp;
    node.cost = cost;
    open.push(std::move(node));
  };
  const std::int64_t many = 40;
  for (std::int64_t i = 0; i < many; ++i) push(1 + i, 1, 99_GiB);
  push(1000, 1.5, 97_GiB);
  bool lean = false;
  for (std::int64_t i = 0; i < 20 && !lean; ++i) {
    const auto node = open.next(2, std::nullopt);
    REQUIRE(node.has_value());
    lean = node->choices.dp == 1000;
    open.note_unexpected(false);
  }
  CHECK(lean);
  CHECK(open.least()->cost == 1);
}

}  // namespace meshwright

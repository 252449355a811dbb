#include "planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "planner/search/space.h"
#include "tests/planner/random_choices.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

// All plans of a space, one after the other.
std::vector<PlanChoices> all_plans(const SearchQuestion& question, const Setting& setting) {
  const SearchSpace space(question, setting, false);
  Bounds bounds(question.batch, setting);
  std::vector<PlanChoices> plans;
  for (const PlanChoices& mesh : space.meshes())
    for (const PlanChoices& sized : space.microbatches(mesh))
      for (const PlanChoices& divided : space.divisions(sized))
        for (const PlanChoices& scheduled : space.schedules(divided)) {
          if (!std::holds_alternative<BlockBounds>(bounds.blocks(scheduled))) continue;
          for (const PlanChoices& layered : space.layerings(scheduled, bounds))
            for (const PlanChoices& offloaded : space.offloads(layered))
              for (const PlanChoices& dropped : space.recomputes(offloaded))
                for (const PlanChoices& one : space.states(dropped)) plans.push_back(one);
        }
  return plans;
}

struct SmallCase {
  std::string model, cluster, software;
  std::int64_t layers = 2, batch = 8, sequence = 256;
};

SmallCase draw_case(RandomChoices& random) {
  SmallCase one{random.one_of<std::string>({"gpt2", "gpt3-1.3b", "llama3-8b"}),
                random.one_of<std::string>({"h100:1x2", "h100:1x6", "h100:2x4", "a100-80:2x6",
                                            "rtx4090:2x2", "t4:4x4", "a100-40:1x8", "h100:1x3"}),
                random.one_of<std::string>({"none", "megatron-core", "megatron-lm", "fsdp"})};
  one.layers = random.one_of<std::int64_t>({2, 3, 4, 6});
  one.batch = random.one_of<std::int64_t>({4, 6, 8, 12, 16});
  one.sequence = random.one_of<std::int64_t>({128, 256, 512});
  return one;
}

// Pins until few enough plans are left to simulate them all.
SearchQuestion draw_question(RandomChoices& random, const SmallCase& one, const Setting& setting) {
  SearchQuestion question{
      .batch = {one.batch, one.sequence, usual_precision_of(setting.cluster)},
      .defaults = choices_of(setting.defaults, usual_precision_of(setting.cluster))};
  question.gap = 0;
  question.most_simulated = 100'000;
  question.top = 3;
  if (random.yes(0.3)) {
    const std::int64_t capacity = setting.cluster.node_types.front().device.memory.value.value();
    question.max_memory = Bytes(capacity / random.one_of<std::int64_t>({2, 4, 8, 16, 24}));
  }
  std::vector<KeyValue> pins = {{"bucket", random.one_of<std::string>({"25 MiB", "400 MiB"})},
                                {"offload", "none"},
                                {"zero", random.one_of<std::string>({"0", "1", "2", "3"})},
                                {"microbatch", random.one_of<std::string>({"1", "2"})},
                                {"schedule", "1f1b"},
                                {"recompute", random.one_of<std::string>({"none", "full"})},
                                {"pp", random.one_of<std::string>({"1", "2"})}};
  while (all_plans(question, setting).size() > 300 && !pins.empty()) {
    const std::size_t next = random.one_of<std::size_t>([&] {
      std::vector<std::size_t> indices(pins.size());
      for (std::size_t i = 0; i < pins.size(); ++i) indices[i] = i;
      return indices;
    }());
    question.pins.push_back(pins[next]);
    pins.erase(pins.begin() + static_cast<std::ptrdiff_t>(next));
  }
  return question;
}

// The shortest step of a plan that fits, by simulating every one.
std::optional<Seconds> best_of_all(const SearchQuestion& question, const Setting& setting) {
  std::optional<Seconds> best;
  const Bytes own = setting.cluster.node_types.front().device.memory.value;
  const Bytes capacity = question.max_memory ? std::min(*question.max_memory, own) : own;
  for (const PlanChoices& choices : all_plans(question, setting)) {
    const auto made = plan_of(choices, question.batch, setting);
    if (!std::holds_alternative<Plan>(made)) continue;
    const Report report = predict(std::get<Plan>(made), setting).report;
    const double room = (1 - kCloseShare) * static_cast<double>(capacity.value());
    const double needed = static_cast<double>(Report::needed(report.fullest()).value());
    if (report.fits != Fit::Yes || needed > room) continue;
    if (!best || report.step < *best) best = report.step;
  }
  return best;
}

}  // namespace

TEST_CASE("a search without a gap finds what simulating every plan finds") {
  const char* given = std::getenv("MESHWRIGHT_SEARCH_SEED");
  const auto first = static_cast<std::uint32_t>(given ? std::atoi(given) : 1);
  const auto count = static_cast<std::uint32_t>(given ? 1 : cases(6, 1000));
  int found = 0;
  for (std::uint32_t seed = first; seed < first + count; ++seed) {
    RandomChoices random(seed);
    const SmallCase one = draw_case(random);
    const Bench bench(one.model, one.cluster, one.software);
    const Model few = with_layers(bench.model, one.layers);
    const Setting setting = make_setting(few, bench.cluster, bench.software, shipped_fits());
    const SearchQuestion question = draw_question(random, one, setting);
    std::string pins;
    for (const KeyValue& pin : question.pins) pins += " " + pin.key + "=" + *pin.value;
    INFO(fmt::format("seed {}: {} with {} layers on {} as {}, batch {} x {}, pins{}", seed,
                     one.model, one.layers, one.cluster, one.software, one.batch, one.sequence,
                     pins));
    const std::optional<Seconds> best = best_of_all(question, setting);
    const SearchResult result = search(question, setting);
    REQUIRE(result.complete);
    REQUIRE(best.has_value() == !result.plans.empty());
    if (!best) {
      CHECK(result.nearest.has_value());
      continue;
    }
    ++found;
    CHECK(result.plans.front().report.step == *best);
    CHECK(result.gap == 0);
    CHECK(result.bound == *best);
  }
  CHECK(found > 0);
}

}  // namespace meshwright

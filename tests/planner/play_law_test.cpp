#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "planner/bound/plan_bound.h"
#include "planner/search/kept_sets.h"
#include "tests/planner/random_choices.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

// Tasks take what they take alone: nothing is shared, nothing slowed, and a step stands by itself.
Setting played_alone(const Setting& setting) {
  EngineOptions engine = setting.engine;
  engine.share_links = engine.repeat = false;
  engine.slow_down_inside_node = engine.slow_down_across_nodes = 1;
  return {.model = setting.model,
          .cluster = setting.cluster,
          .costs = setting.costs,
          .engine = engine,
          .step = {},
          .defaults = setting.defaults,
          .memory = setting.memory};
}

// When the last kernel of any forward or backward ends.
Seconds end_of_backward(const Prediction& prediction) {
  Seconds end;
  for (std::size_t p = 0; p < prediction.represented.programs.size(); ++p) {
    const Program& program = prediction.represented.programs[p];
    const auto& spans = prediction.timeline.devices[p].tasks;
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      const Task& task = program.tasks[t];
      if (task.kind != TaskKind::Kernel || program.kernel(task).phase == Phase::Step) continue;
      // Gradients of a weight that several ops use are added when the backward is over.
      const Kernel& kernel = program.kernel(task);
      if (kernel.kind == KernelKind::Sum && kernel.operands.front().sizes.size() == 1) continue;
      end = std::max(end, spans[t].finish);
    }
  }
  return end;
}

// Else devices have unequal shares, and one of them stands for all.
bool divides_heads(const Model& model, std::int64_t tp) {
  return std::ranges::none_of(model.dims, [&](const Dim& dim) {
    return (dim.name == "heads" || dim.name == "kv_heads") && dim.size % tp != 0;
  });
}

// What no mixture of the points is below: the lower hull, from most bytes to fewest.
double least_seconds(const std::vector<std::pair<double, double>>& points, double bytes) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [bytes_a, seconds_a] : points) {
    if (bytes_a <= bytes) least = std::min(least, seconds_a);
    for (const auto& [bytes_b, seconds_b] : points) {
      if (bytes_a <= bytes || bytes_b > bytes) continue;
      const double share = (bytes - bytes_b) / (bytes_a - bytes_b);
      least = std::min(least, share * seconds_a + (1 - share) * seconds_b);
    }
  }
  return least;
}

}  // namespace

TEST_CASE("stages played block by block end when the whole program does") {
  int compared = 0;
  const int plans = cases(20, 1000);
  for (std::uint32_t seed = 1; compared < plans; ++seed) {
    RandomChoices random(seed);
    const auto model = random.one_of<std::string>({"gpt2", "gpt3-1.3b", "llama3-8b"});
    const auto cluster = random.one_of<std::string>({"h100:4x8", "a100-80:4x8", "gb200-nvl72:8x4"});
    const auto software =
        random.one_of<std::string>({"none", "megatron-core", "megatron-lm", "fsdp"});
    const Bench bench(model, cluster, software);
    const Model few = with_layers(bench.model, random.one_of<std::int64_t>({4, 6, 8, 12}));
    const Setting made = make_setting(few, bench.cluster, bench.software, shipped_fits());
    const Setting setting = played_alone(made);
    PlanChoices choices = random.draw(choices_of(setting.defaults, Precision::BF16));
    // What is done about state is not played here; what layers rerun together is not counted.
    choices.dp = choices.cp = 1;
    choices.context = Context::Ring;
    choices.ulysses = choices.inner_ring = std::nullopt;
    choices.zero = 0;
    choices.place.clear();
    choices.offload_activations = choices.offload_optimizer = false;
    if (choices.recompute.kind == Recompute::Uniform) choices.recompute.layers = 1;
    const BatchChoice batch{.global_batch = choices.dp * choices.microbatch *
                                            random.one_of<std::int64_t>({1, 2, 4, 7, 12}),
                            .sequence = random.one_of<std::int64_t>({256, 1024}),
                            .precision = Precision::BF16};
    const auto plan = plan_of(choices, batch, setting);
    if (!std::holds_alternative<Plan>(plan) || !divides_heads(few, choices.tp)) continue;
    ++compared;
    INFO(fmt::format("seed {}: {} on {} as {}, batch {} x {}: {}", seed, model, cluster, software,
                     batch.global_batch, batch.sequence, to_text(choices)));
    const Seconds end = end_of_backward(predict(std::get<Plan>(plan), setting));
    const Seconds played = Bounds(batch, setting).of_any_state(choices);
    CHECK(played / end - 1 < 2e-9);
    // Layers of squares sum gradients among them, which may take kernels of its own.
    if (choices.tensor != TensorForm::TwoAndHalfD) CHECK(played / end - 1 > -2e-9);
  }
}

TEST_CASE("no set of kept tensors needs less memory for its time than a mixture of the front") {
  const auto blocks = static_cast<std::uint32_t>(cases(3, 200));
  for (std::uint32_t seed = 1; seed <= blocks; ++seed) {
    RandomChoices random(seed);
    const auto model = random.one_of<std::string>({"gpt2", "gpt3-1.3b", "llama3-8b", "llama3-70b"});
    const auto cluster = random.one_of<std::string>({"h100:1x8", "a100-80:1x8", "rtx4090:1x8"});
    const auto software = random.one_of<std::string>({"none", "megatron-core", "fsdp"});
    const Bench bench(model, cluster, software);
    const BatchChoice batch{.global_batch = 8,
                            .sequence = random.one_of<std::int64_t>({256, 512, 1024}),
                            .precision = Precision::BF16};
    PlanChoices choices = choices_of(bench.setting.defaults, Precision::BF16);
    choices.recompute = {};
    Bounds bounds(batch, bench.setting);
    const auto cost = [&](const RecomputeChoice& recompute) {
      choices.recompute = recompute;
      const auto& found = bounds.blocks(choices);
      if (const auto* reasons = std::get_if<Reasons>(&found)) FAIL(reasons->front());
      const auto& costs = std::get<BlockBounds>(found);
      const auto layer = std::ranges::find(costs.blocks, true, &BlockBound::layer);
      return std::pair(static_cast<double>(layer->memory.kept.value()),
                       layer->forward.compute_s + layer->backward.compute_s);
    };
    const auto front = kept_sets(choices, batch, bench.setting, {}).sets;
    INFO(fmt::format("seed {}: {} on {} as {}, sequence {}", seed, model, cluster, software,
                     batch.sequence));
    REQUIRE(!front.empty());
    std::vector<std::pair<double, double>> points = {cost({})};
    for (const RecomputeChoice& set : front) points.push_back(cost(set));
    // The set that drops most names all that can be dropped.
    const auto& names = front.back().dropped;
    for (int i = 0; i < 50; ++i) {
      RecomputeChoice set{.kind = Recompute::Drop, .layers = 0};
      for (const std::string& name : names) {
        if (random.yes()) set.dropped.push_back(name);
      }
      if (set.dropped.empty()) continue;
      INFO(to_text(set));
      const auto [bytes, seconds] = cost(set);
      CHECK(seconds >= least_seconds(points, bytes) * (1 - 5e-3));
    }
  }
}

}  // namespace meshwright

#include <catch2/catch.hpp>
#include <random>

#include "simulator/lowering/lower.h"
#include "simulator/program/arena.h"
#include "tests/simulator/small_models.h"
#include "tests/simulator/small_plans.h"
#include "tests/test_scale.h"

// What a layer holds from the forward to the backward, in closed form. s sequence, b micro-batch,
// h hidden, a heads, t tensor parallelism.
namespace meshwright {
namespace {

struct Sizes {
  std::int64_t s = 8, b = 1, h = 16, a = 4, t = 1;
  std::int64_t sbh() const { return s * b * h; }
  std::int64_t scores() const { return a * s * s * b; }
};

Sizes random_model_sizes(std::uint32_t seed) {
  std::mt19937 generator(seed);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low +
           static_cast<std::int64_t>(generator() % static_cast<std::uint32_t>(high - low + 1));
  };
  Sizes sizes;
  sizes.t = between(1, 4);
  sizes.a = sizes.t * between(1, 3);
  sizes.h = sizes.a * between(1, 4);
  sizes.s = sizes.t * between(1, 5);
  sizes.b = between(1, 3);
  return sizes;
}

Program program_of(const Sizes& sizes, std::int64_t layers, const std::string& choices,
                   Precision precision) {
  const Model model =
      small_gpt({.hidden = sizes.h, .layers = layers, .heads = sizes.a, .positions = 32});
  const Plan plan = small_plan(
      "tp=" + std::to_string(sizes.t) + ",microbatch=" + std::to_string(sizes.b) + "," + choices,
      model, sizes.b, sizes.s, precision);
  REQUIRE(check_plan(plan, model, test_cluster()) == std::vector<std::string>{});
  return lower(model, plan, DeviceId(0));
}

// What was written before the first gradient, which is the loss's, and is used after it.
std::int64_t held(const Program& program) {
  std::size_t turn = 0;
  while (program.tasks[turn].kind == TaskKind::Transfer ||
         program.kernel(program.tasks[turn]).kind != KernelKind::Loss ||
         program.kernel(program.tasks[turn]).phase == Phase::Forward) {
    ++turn;
  }
  const auto lives = lifetimes_of(program);
  Bytes sum;
  for (std::size_t b = 0; b < lives.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.persistent || !lives[b] || lives[b]->first >= turn || lives[b]->last < turn)
      continue;
    sum += bytes_of(buffer, program.precision);
  }
  return sum.value();
}

// All of its layers without experts.
Model small_dense_model(const SmallModel& small) {
  const std::string key = R"("first_k_dense_replace": )";
  std::string text = config_of(small);
  const std::size_t value = text.find(key) + key.size();
  text.replace(value, text.find(',', value) - value, std::to_string(small.layers));
  return make_model(read_hugging_face(JsonInput::parse(text, small.family), "small"));
}

// The second and third layer differ from the first and last in nothing.
std::int64_t held_by_layer(const Sizes& sizes, const std::string& choices, Precision precision) {
  return held(program_of(sizes, 4, choices, precision)) -
         held(program_of(sizes, 3, choices, precision));
}

}  // namespace

// Korthikanti et al., arXiv 2205.05198, table 2, multiplied out.
TEST_CASE("unfused kernels in two bytes keep the published activations of a layer") {
  for (std::uint32_t seed = 0; seed < static_cast<std::uint32_t>(cases(6, 100)); ++seed) {
    CAPTURE(seed);
    const Sizes z = random_model_sizes(seed);
    const auto kept = [&](const std::string& choices) {
      return held_by_layer(z, "kernels=unfused," + choices, Precision::BF16);
    };
    const std::int64_t sbh = z.sbh(), scores = z.scores(), t = z.t;
    CHECK(kept("recompute=none") == 10 * sbh + (24 * sbh + 5 * scores) / t);
    CHECK(kept("recompute=selective") == 10 * sbh + 24 * sbh / t);
    CHECK(kept("recompute=full") == 2 * sbh);
    CHECK(kept("sequence_parallel=true") == (34 * sbh + 5 * scores) / t);
    CHECK(kept("sequence_parallel=true,recompute=selective") == 34 * sbh / t);
    CHECK(kept("sequence_parallel=true,recompute=full") == 2 * sbh / t);
  }
}

// As the published form without masks, which are drawn again, and without scores, for which
// attention keeps a number a row; norms keep two.
struct OwnForm {
  std::int64_t element, statistic;
  std::int64_t rows(const Sizes& z) const { return 4 * z.s * z.b * statistic; }
  std::int64_t lse(const Sizes& z) const { return z.a * z.s * z.b / z.t * statistic; }
  std::int64_t whole(const Sizes& z) const { return 4 * z.sbh() * element; }
  std::int64_t split(const Sizes& z) const { return 12 * z.sbh() / z.t * element; }
};

TEST_CASE("our kernels keep 16 sbh numbers of a layer, 4 sb of its norms and asb of attention") {
  for (std::uint32_t seed = 0; seed < static_cast<std::uint32_t>(cases(3, 100)); ++seed) {
    CAPTURE(seed);
    const Sizes z = random_model_sizes(seed);
    for (const auto& [precision, form] :
         {std::pair{Precision::BF16, OwnForm{2, 4}}, std::pair{Precision::FP32, OwnForm{4, 4}},
          std::pair{Precision::FP64, OwnForm{8, 8}}}) {
      const auto kept = [&](const std::string& choices) {
        return held_by_layer(z, choices, precision);
      };
      CHECK(kept("recompute=none") == form.whole(z) + form.rows(z) + form.split(z) + form.lse(z));
      CHECK(kept("recompute=selective") == form.whole(z) + form.rows(z) + form.split(z));
      CHECK(kept("recompute=full") == z.sbh() * form.element);
      // The layer's input, queries, keys and values, what attention makes of them, and the wide
      // product of the feed-forward.
      CHECK(kept("recompute=products") ==
            z.sbh() * form.element + (3 + 1 + 4) * z.sbh() / z.t * form.element + form.lse(z));
      CHECK(kept("sequence_parallel=true") ==
            (form.whole(z) + form.rows(z)) / z.t + form.split(z) + form.lse(z));
      CHECK(kept("sequence_parallel=true,recompute=selective") ==
            (form.whole(z) + form.rows(z)) / z.t + form.split(z));
      CHECK(kept("sequence_parallel=true,recompute=full") == z.sbh() / z.t * form.element);
    }
  }
}

// Latent attention keeps its compressed vectors before and after their norms, queries, keys and
// values at their full size once, and its result: q_l and k_l the ranks, n, r and v the sizes of
// the parts of a head. With a gated feed-forward of f. Its up-projections can be computed again.
TEST_CASE("latent attention keeps what its closed form says") {
  const std::int64_t s = 12, b = 2, h = 10, a = 4, f = 24, n = 8, r = n / 2, v = n - 1;
  const std::int64_t query_rank = 7, rank = 9, tokens = s * b;
  const auto held_by = [&](std::int64_t layers, std::int64_t t, const std::string& choices) {
    const Model model = small_dense_model({.family = "deepseek_v3",
                                           .hidden = h,
                                           .layers = layers,
                                           .ffn = f,
                                           .kv_heads = a,
                                           .queries_per_head = 1,
                                           .head_size = n,
                                           .width = rank});
    const Plan plan = small_plan(fmt::format("tp={},microbatch={},{}", t, b, choices), model, b, s,
                                 Precision::BF16);
    REQUIRE(check_plan(plan, model, test_cluster()) == std::vector<std::string>{});
    return held(lower(model, plan, DeviceId(0)));
  };
  for (const std::int64_t t : {1, 2, 4}) {
    CAPTURE(t);
    const auto kept = [&](const std::string& choices) {
      return held_by(4, t, choices) - held_by(3, t, choices);
    };
    const std::int64_t latent = 4 * query_rank + 2 * (2 * rank + r);
    const std::int64_t expanded = 2 * a * (2 * (n + r) + v), result = 2 * a * v + 4 * a;
    const std::int64_t whole = 4 * h + latent + 4 * h + 4 * 4;  // with a number of each norm
    CHECK(kept("recompute=none") == tokens * (whole + (expanded + result + 6 * f) / t));
    CHECK(kept("sequence_parallel=true") == tokens * (whole + expanded + result + 6 * f) / t);
    CHECK(kept("recompute=drop:attention.q_up+attention.q_rope+attention.kv_up+attention.k_rope+"
               "attention.kv_up_split.k+attention.kv_up_split.v+attention.k+attention.v") ==
          tokens * (whole + (result + 6 * f) / t));
    // The first layer drops more than the other three.
    const std::string queries = "attention.q_rope+attention.q_up";
    const std::string keys = queries + "+attention.kv_up+attention.k_rope";
    CHECK(held_by(4, t, "recompute=drop:" + keys + ":1:" + queries) ==
          held_by(4, t, "recompute=drop:" + queries) + kept("recompute=drop:" + keys) -
              kept("recompute=drop:" + queries));
  }
}

// Of a vocabulary of v. PyTorch's loss has a copy of the logits and their probabilities in fp32.
TEST_CASE("a loss that is not fused keeps probabilities in fp32, and needs as much again") {
  const Sizes z{.s = 16, .b = 2, .h = 32, .a = 4};
  const auto logits = [&](const std::string& kernels) {
    return program_of(z, 1, "kernels=" + kernels, Precision::BF16);
  };
  const std::int64_t numbers = z.s * z.b * SmallGpt{}.vocabulary;
  CHECK(held(logits("eager")) - held(logits("flash")) == (4 - 2) * numbers);
  const auto workspace = [&](const std::string& kernels) {
    std::vector<std::int64_t> sizes;
    for (const Buffer& buffer : logits(kernels).buffers) {
      if (buffer.component == Component::Workspace) sizes.push_back(buffer.count);
    }
    return sizes;
  };
  CHECK(workspace("flash").size() + 2 == workspace("eager").size());
  const auto eager = workspace("eager");
  CHECK(std::count(eager.begin(), eager.end(), 4 * numbers) == 1);
  CHECK(std::count(eager.begin(), eager.end(), (4 + 4 - 2) * numbers) == 1);
}

// The arena holds weights, gradients and two moments of a layer besides: 12 h^2 + 13 h parameters
// (Narayanan et al., SC'21), here without tensor parallelism. Sizes are such that no buffer needs
// to be aligned.
TEST_CASE("another layer needs as much more memory as the closed forms say") {
  const Sizes z{.s = 16, .b = 2, .h = 64, .a = 8};
  const std::int64_t state = 4 * 4 * (12 * z.h * z.h + 13 * z.h);
  const OwnForm form{4, 4};
  const auto more = [&](const std::string& choices) {
    const auto peak = [&](std::int64_t layers) {
      return lay_out_arena(program_of(z, layers, choices, Precision::FP32)).peak.value();
    };
    return peak(6) - peak(5);
  };
  CHECK(more("recompute=none") ==
        state + form.whole(z) + form.rows(z) + form.split(z) + form.lse(z));
  CHECK(more("recompute=selective") == state + form.whole(z) + form.rows(z) + form.split(z));
  CHECK(more("recompute=full") == state + z.sbh() * form.element);
}

}  // namespace meshwright

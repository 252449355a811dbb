#include "costmodel/model/model_costs.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "costmodel/model/import/hugging_face.h"
#include "costmodel/model/model_name.h"

namespace meshwright {
namespace {

// A GPT with feed-forward 4h and dropout, as the closed forms have it.
struct Gpt {
  std::int64_t hidden, layers, heads, vocabulary, sequence, batch;
};

Model make(const Gpt& gpt) {
  const std::string config =
      R"({"model_type": "gpt2", "n_embd": )" + std::to_string(gpt.hidden) + R"(, "n_layer": )" +
      std::to_string(gpt.layers) + R"(, "n_head": )" + std::to_string(gpt.heads) +
      R"(, "n_positions": 65536, "vocab_size": )" + std::to_string(gpt.vocabulary) + "}";
  return make_model(read_hugging_face(JsonInput::parse(config, "gpt"), "gpt"));
}

ModelCosts profile(const Gpt& gpt, KernelSet kernels) {
  return model_costs(
      make(gpt),
      {.micro_batch = gpt.batch, .sequence = gpt.sequence, .element = 2_B, .kernels = kernels});
}

// Random sizes; at least two layers, so that the layers are a block.
Gpt random_gpt() {
  const auto between = [](std::int64_t low, std::int64_t high) {
    return *rc::gen::inRange<std::int64_t>(low, high + 1);
  };
  const std::int64_t heads = between(1, 16);
  return {.hidden = heads * between(1, 64),
          .layers = between(2, 5),
          .heads = heads,
          .vocabulary = between(10, 5000),
          .sequence = between(1, 300),
          .batch = between(1, 5)};
}

const BlockCosts& layers_of(const ModelCosts& profile) {
  REQUIRE(profile.blocks.size() == 3);
  return profile.blocks[1];
}

}  // namespace

TEST_CASE("a GPT layer has 12 h^2 + 13 h parameters") {
  CHECK(rc::check("12 h^2 + 13 h", [] {
    const Gpt gpt = random_gpt();
    const std::int64_t h = gpt.hidden;
    RC_ASSERT(layers_of(profile(gpt, KernelSet::Flash)).work.parameters == 12 * h * h + 13 * h);
  }));
}

// Narayanan et al., SC'21: 72 B s L h^2 (1 + s/(6h) + V/(12 L h)), multiplied out.
TEST_CASE("a GPT step takes the published number of FLOPs") {
  CHECK(rc::check("72 B s L h^2 (1 + s/6h + V/12Lh)", [] {
    const Gpt g = random_gpt();
    const Work work = profile(g, KernelSet::Flash).total;
    const std::int64_t tokens = g.batch * g.sequence;
    const std::int64_t expected = 72 * tokens * g.layers * g.hidden * g.hidden +
                                  12 * tokens * g.layers * g.hidden * g.sequence +
                                  6 * tokens * g.hidden * g.vocabulary;
    RC_ASSERT((work.forward + work.backward()).value() == expected);
  }));
}

// Korthikanti et al., arXiv 2205.05198, table 2: s b h (34 + 5 a s / h), multiplied out.
TEST_CASE("an unfused GPT layer saves 34 sbh + 5 a s^2 b bytes") {
  CHECK(rc::check("34 sbh + 5 as^2b", [] {
    const Gpt g = random_gpt();
    const std::int64_t sbh = g.sequence * g.batch * g.hidden;
    const std::int64_t scores = g.heads * g.sequence * g.sequence * g.batch;
    RC_ASSERT(layers_of(profile(g, KernelSet::Unfused)).work.saved.value() ==
              34 * sbh + 5 * scores);
  }));
}

// Without the score matrices: output of attention kept (as before, by the next matmul), a
// log-sum-exp of 4 a s b, and the mean and deviation of two norms, 2 * 2 * 4 s b.
TEST_CASE("blocked attention drops the score matrices for one number a row") {
  CHECK(rc::check("34 sbh + 4 asb + 16 sb", [] {
    const Gpt g = random_gpt();
    const std::int64_t rows = g.sequence * g.batch;
    RC_ASSERT(layers_of(profile(g, KernelSet::Flash)).work.saved.value() ==
              34 * rows * g.hidden + 4 * g.heads * rows + 16 * rows);
  }));
}

TEST_CASE("a gated layer saves its input, gate, up and product: 2 sbh + 6 sbf") {
  const Model model = make_model(read_model("llama3-8b", MESHWRIGHT_DATA));
  const std::int64_t s = 1000, h = 4096, f = 14336;
  const ModelCosts result = model_costs(model, {.micro_batch = 1, .sequence = s});
  Bytes saved;
  for (const OpCosts& op : result.blocks[1].ops) {
    // The up projection is the first to keep the input; gate and product come from the others.
    if (op.name.find(".ffn.") != std::string::npos && op.kind != OpKind::RmsNorm) {
      saved += op.work.saved;
    }
  }
  CHECK(saved.value() == 2 * s * h + 6 * s * f);
}

TEST_CASE("work is proportional to the micro-batch") {
  CHECK(rc::check("batch", [] {
    Gpt g = random_gpt();
    g.batch = 1;
    const Work one = profile(g, KernelSet::Unfused).total;
    g.batch = 3;
    const Work three = profile(g, KernelSet::Unfused).total;
    RC_ASSERT(three.forward == one.forward * 3);
    RC_ASSERT(three.backward() == one.backward() * 3);
    RC_ASSERT(three.parameters == one.parameters);
  }));
}

TEST_CASE("frozen weights have no gradient to compute and nothing to save for it") {
  OpGraph graph = read_model("gpt2", MESHWRIGHT_DATA);
  const ModelCosts all = model_costs(make_model(graph), {.sequence = 128});
  for (GraphWeight& weight : graph.weights) weight.frozen = true;
  const ModelCosts none = model_costs(make_model(with_gradients(graph)), {.sequence = 128});
  CHECK(none.total.forward == all.total.forward);
  CHECK(none.total.backward() == Flops(0));
  CHECK(none.total.saved == 0_B);
  CHECK(none.parameters.trainable == 0);
}

TEST_CASE("pixels need no gradient, so the first layer of an image model has none for them") {
  const ModelCosts vit =
      model_costs(make_model(read_model("vit-base", MESHWRIGHT_DATA)), {.micro_batch = 1});
  const OpCosts& patches = vit.blocks[0].ops[0];
  CHECK(patches.work.forward == Flops(2ll * 196 * 768 * 768));
  CHECK(patches.work.input_gradient == Flops(0));
  CHECK(patches.work.weight_gradient == patches.work.forward);
  CHECK(!vit.tokens);
}

}  // namespace meshwright

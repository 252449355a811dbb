#include "costmodel/model/model.h"

#include <catch2/catch.hpp>

#include "costmodel/base/input_error.h"
#include "costmodel/base/presets.h"
#include "costmodel/model/graph_builder.h"
#include "costmodel/model/graph_file.h"
#include "costmodel/model/model_name.h"
#include "costmodel/model/repeats.h"

namespace meshwright {
namespace {

std::vector<std::pair<std::string, std::int64_t>> blocks_of(const Model& model) {
  std::vector<std::pair<std::string, std::int64_t>> blocks;
  for (const Block& block : model.blocks) blocks.emplace_back(block.name, block.count);
  return blocks;
}

Model preset(const char* name) { return make_model(read_model(name, MESHWRIGHT_DATA)); }

using Blocks = std::vector<std::pair<std::string, std::int64_t>>;

// A first matmul, so that all else needs gradients, then a layer of three ops for every width.
OpGraph chain(const std::vector<std::int64_t>& widths) {
  GraphBuilder graph("chain");
  const DimId hidden = graph.dim("hidden", 8);
  const DimId pixels = graph.dim("pixels", 2);
  TensorId x = graph.input("x", {graph.batch(), pixels}, Element::Real);
  x = graph.dense("stem", x, "stem", {pixels}, {hidden}, false);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::string name = "layers." + std::to_string(i) + ".";
    const DimId inner = graph.dim("inner" + std::to_string(widths[i]), widths[i]);
    x = graph.dense(name + "up", x, name + "up", {hidden}, {inner}, false);
    x = graph.elementwise(OpKind::Activation, name + "relu", x, FunctionAttributes{Function::Relu});
    x = graph.dense(name + "down", x, name + "down", {inner}, {hidden}, false);
  }
  return graph.finish("chain");
}

// Every op instance of the model, in order, with the names of the weights it reads.
std::vector<std::pair<OpKind, std::vector<std::string>>> unrolled(const Model& model) {
  std::vector<std::pair<OpKind, std::vector<std::string>>> ops;
  for (const Block& block : model.blocks) {
    for (std::int64_t r = 0; r < block.count; ++r) {
      for (const Op& op : block.ops) {
        std::vector<std::string> names;
        for (const WeightUse& use : op.weights) {
          const Weight& weight = weight_of(model, block, use);
          names.push_back(weight.names[use.shared ? 0 : static_cast<std::size_t>(r)]);
        }
        ops.emplace_back(op.kind, names);
      }
    }
  }
  return ops;
}

}  // namespace

TEST_CASE("repeated blocks are found and stored once") {
  CHECK(blocks_of(preset("llama3-8b")) == Blocks{{"embedding", 1}, {"layers.*", 32}, {"head", 1}});
  CHECK(blocks_of(preset("gpt2")) == Blocks{{"embedding", 1}, {"layers.*", 12}, {"head", 1}});
  // Three dense layers, then 58 with experts.
  CHECK(blocks_of(preset("deepseek-v3")) ==
        Blocks{{"embedding", 1}, {"layers.*", 3}, {"layers.*", 58}, {"head", 1}});
  const Model t5 = preset("t5-base");
  REQUIRE(t5.blocks.size() == 5);
  CHECK(t5.blocks[1].name == "encoder.layers.*");
  CHECK(t5.blocks[1].count == 12);
  CHECK(t5.blocks[3].name == "decoder.layers.*");
  CHECK(t5.blocks[3].count == 12);
}

TEST_CASE("a repetition reads the one before it, and outer tensors stay outer") {
  const Model t5 = preset("t5-base");
  const Block& decoder = t5.blocks[3];
  int carried = 0;
  for (const BlockInput& input : decoder.inputs) carried += input.carried ? 1 : 0;
  CHECK(decoder.inputs.size() == 3);  // hidden state, position bias, what the encoder made
  CHECK(carried == 1);
}

TEST_CASE("tied weights are one weight of the model") {
  const Model gpt2 = preset("gpt2");
  REQUIRE(gpt2.shared_weights.size() == 1);
  CHECK(gpt2.shared_weights[0].names == std::vector<std::string>{"transformer.wte.weight"});
  CHECK(preset("llama3-8b").shared_weights.empty());
  CHECK(preset("t5-base").shared_weights.size() == 1);
}

TEST_CASE("repeats follow shape, not names or counts") {
  CHECK(find_repeats(chain({4, 4, 4})) == std::vector<OpRun>{{0, 1, 1}, {1, 3, 3}});
  CHECK(find_repeats(chain({4, 5, 6})) == std::vector<OpRun>{{0, 10, 1}});
  CHECK(find_repeats(chain({4, 5, 4, 5})) == std::vector<OpRun>{{0, 1, 1}, {1, 6, 2}});
  CHECK(find_repeats(chain({9, 4, 4, 4, 4, 7})) ==
        std::vector<OpRun>{{0, 4, 1}, {4, 3, 4}, {16, 3, 1}});
}

TEST_CASE("a repetition that is read from outside ends its block") {
  OpGraph graph = chain({4, 4, 4, 4});
  // The last op also adds what layer 1 produced.
  Tensor sum = graph.tensors[graph.ops[12].outputs[0].index()];
  sum.name = "sum";
  graph.tensors.push_back(sum);
  graph.ops.push_back({OpKind::Add,
                       "sum",
                       {graph.ops[12].outputs[0], graph.ops[6].outputs[0]},
                       {},
                       {TensorId(graph.tensors.size() - 1)},
                       {}});
  const auto runs = find_repeats(graph);
  REQUIRE(runs.size() == 4);
  CHECK(runs[1] == OpRun{1, 3, 2});
  CHECK(runs[2] == OpRun{7, 3, 2});
  const Model model = make_model(graph);
  REQUIRE(model.blocks[3].inputs.size() == 2);
  CHECK(model.blocks[3].inputs[0].source.block == 2u);
  CHECK(model.blocks[3].inputs[1].source.block == 1u);
}

TEST_CASE("a frozen weight tells blocks apart, and frozen bottoms need no gradients") {
  OpGraph graph = chain({4, 4, 4, 4});
  for (std::size_t w = 0; w < 3; ++w) graph.weights[w].frozen = true;  // stem and first layer
  const Model model = make_model(with_gradients(graph));
  // The second layer trains but its input needs no gradient; the last two are alike.
  REQUIRE(model.blocks.size() == 2);
  CHECK(model.blocks[0].ops.size() == 7);
  CHECK(model.blocks[1].count == 2);
  CHECK(!model.blocks[0].tensors[4].needs_gradient);
  CHECK(model.blocks[0].tensors.back().needs_gradient);
  CHECK(count_parameters(model).total == 2 * 8 + 4 * 64);
  CHECK(count_parameters(model).trainable == 3 * 64);
}

TEST_CASE("blocks unroll to the graph they were found in") {
  for (const std::string& name : preset_names(MESHWRIGHT_DATA "/models")) {
    CAPTURE(name);
    const OpGraph graph = read_model(name, MESHWRIGHT_DATA);
    const auto ops = unrolled(make_model(graph));
    REQUIRE(ops.size() == graph.ops.size());
    bool same = true;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      std::vector<std::string> names;
      for (const WeightId weight : graph.ops[i].weights) {
        names.push_back(graph.weights[weight.index()].name);
      }
      same = same && ops[i].first == graph.ops[i].kind && ops[i].second == names;
    }
    CHECK(same);
  }
}

TEST_CASE("experts that are not chosen do not count as active") {
  const ParameterCount count = count_parameters(preset("mixtral-8x7b"));
  CHECK(count.total == 46'702'792'704);
  // 32 layers of 8 experts with 3 matrices of 4096 x 14336, of which 2 are chosen.
  CHECK(count.active == 46'702'792'704 - 32ll * 6 * 3 * 4096 * 14336);
}

}  // namespace meshwright

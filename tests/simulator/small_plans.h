#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "costmodel/cluster/cluster_name.h"
#include "costmodel/model/import/hugging_face.h"
#include "costmodel/price/cost_model.h"
#include "simulator/choices/resolve.h"
#include "simulator/lowering/check_plan.h"
#include "tests/user_costs.h"

namespace meshwright {

struct SmallGpt {
  std::int64_t hidden = 24, layers = 4, heads = 4, vocabulary = 37, positions = 16;
  double dropout = 0.1;
  bool tied = true;
};

inline Model small_gpt(const SmallGpt& gpt = {}) {
  const std::string config =
      R"({"model_type": "gpt2", "n_embd": )" + std::to_string(gpt.hidden) + R"(, "n_layer": )" +
      std::to_string(gpt.layers) + R"(, "n_head": )" + std::to_string(gpt.heads) +
      R"(, "n_positions": )" + std::to_string(gpt.positions) + R"(, "vocab_size": )" +
      std::to_string(gpt.vocabulary) + R"(, "embd_pdrop": )" + std::to_string(gpt.dropout) +
      R"(, "attn_pdrop": )" + std::to_string(gpt.dropout) + R"(, "resid_pdrop": )" +
      std::to_string(gpt.dropout) + R"(, "tie_word_embeddings": )" + (gpt.tied ? "true" : "false") +
      "}";
  return make_model(read_hugging_face(JsonInput::parse(config, "gpt"), "gpt"));
}

// The same model with its embeddings and first layers frozen.
inline Model with_frozen_layers(const Model& model, std::int64_t layers) {
  OpGraph graph = unroll(model);
  const auto is_frozen = [&](const GraphOp& op) {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      if (op.name.starts_with("layers." + std::to_string(layer) + ".")) return true;
    }
    return op.kind == OpKind::Embedding;
  };
  for (const GraphOp& op : graph.ops) {
    if (!is_frozen(op)) continue;
    for (const WeightId weight : op.weights) graph.weights[weight.index()].frozen = true;
  }
  return make_model(with_gradients(std::move(graph)));
}

inline Model frozen_gpt(const SmallGpt& gpt, std::int64_t layers) {
  return with_frozen_layers(small_gpt(gpt), layers);
}

inline const Cluster& test_cluster() {
  static const Cluster cluster = find_cluster("h100:8x8", MESHWRIGHT_DATA);
  return cluster;
}

inline Plan small_plan(const std::string& choices, const Model& model, std::int64_t global_batch,
                       std::int64_t sequence = 8, Precision precision = Precision::FP64) {
  const BatchChoice batch{global_batch, sequence, precision};
  const PlanChoices parsed = parse_plan_choices(choices);
  const auto problems = check_choices(parsed, batch, model, test_cluster());
  CAPTURE(choices, problems);
  REQUIRE(problems.empty());
  return resolve(parsed, batch, model, test_cluster(), UserCosts(test_cluster()));
}

// Layers of each of `chunks` chunks as a short form has them, one at least: "1+2+1".
inline std::string random_layers(
    std::int64_t layers, std::int64_t chunks,
    const std::function<std::int64_t(std::int64_t, std::int64_t)>& between) {
  std::string text;
  for (; chunks > 0; --chunks) {
    const std::int64_t taken = chunks == 1 ? layers : between(1, layers - chunks + 1);
    text += (text.empty() ? "" : "+") + std::to_string(taken);
    layers -= taken;
  }
  return text;
}

}  // namespace meshwright

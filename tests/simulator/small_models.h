#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>

#include "costmodel/model/import/hugging_face.h"
#include "costmodel/model/model.h"

namespace meshwright {

inline constexpr std::array<const char*, 20> kSmallFamilies = {
    "gpt2",      "llama", "mistral", "qwen2",       "qwen3",       "gemma",   "phi3",
    "gpt_neox",  "opt",   "bloom",   "deepseek_v2", "deepseek_v3", "mixtral", "qwen2_moe",
    "qwen3_moe", "olmo2", "granite", "seed_oss",    "glm4",        "glm4_moe"};

// A tiny model of any decoder family; a family ignores what it does not have.
struct SmallModel {
  std::string family = "llama";
  std::int64_t hidden = 16, layers = 2, ffn = 24, vocabulary = 37, positions = 16;
  std::int64_t kv_heads = 2, queries_per_head = 2, head_size = 4;
  std::int64_t window = 16;
  double dropout = 0;
  double rotated = 1;  // share of a head
  bool tied = false, bias = false;
  bool parallel = true;     // gpt_neox; deepseek: queries are compressed
  bool norm_first = true;   // opt; deepseek: yarn
  std::int64_t width = 16;  // of opt's embeddings; deepseek: of compressed keys and values
  std::int64_t experts = 4, choices = 2;
  std::int64_t further = 0;  // deepseek: layers that predict further tokens
  double balance = 0;        // what the loss of an uneven choice counts for
  double bias_rate = 0;      // deepseek: of the choice's bias
};

// Whether it has head_dim and num_key_value_heads: otherwise heads divide the hidden dimension.
inline bool is_llama_like(const std::string& family) {
  return family != "gpt2" && family != "gpt_neox" && family != "opt" && family != "bloom";
}

// Whether layers have experts.
inline bool has_experts(const std::string& family) {
  return family.starts_with("deepseek") || family == "mixtral" || family.ends_with("_moe");
}

inline std::string expert_fields(const SmallModel& model) {
  const bool groups = model.family == "deepseek_v3";
  return fmt::format(
      R"(, "num_local_experts": {0}, "num_experts": {0}, "n_routed_experts": {0},)"
      R"( "num_experts_per_tok": {1}, "moe_intermediate_size": {2}, "norm_topk_prob": {3},)"
      R"( "shared_expert_intermediate_size": {4}, "n_group": {5}, "topk_group": {6},)"
      R"( "routed_scaling_factor": 1.5, "first_k_dense_replace": 0, "output_router_logits": {7},)"
      R"( "router_aux_loss_coef": {8}, "aux_loss_alpha": {8}, "moe_router_bias_update_rate": {9})",
      model.experts, model.choices, model.ffn / 2 + 2, model.bias, model.ffn, groups ? 2 : 1,
      groups && model.choices == 1 ? 1
      : groups                     ? 2
                                   : 1,
      model.balance > 0, model.balance, model.bias_rate);
}

// Compressed queries, keys and values.
inline std::string latent_fields(const SmallModel& model) {
  return fmt::format(
      R"(, "q_lora_rank": {}, "kv_lora_rank": {}, "qk_nope_head_dim": {}, "qk_rope_head_dim": {},)"
      R"( "v_head_dim": {}, "rope_interleave": {}, "rope_scaling": {}, "mtp_num_layers": {})",
      model.parallel ? "7" : "null", model.width, model.head_size, model.head_size / 2,
      model.head_size - 1, model.tied,
      model.norm_first ? R"({"type": "yarn", "factor": 4, "beta_fast": 1, "beta_slow": 0.2,)"
                         R"( "mscale": 1, "mscale_all_dim": 0.5,)"
                         R"( "original_max_position_embeddings": 8})"
                       : "null",
      model.further);
}

inline std::string config_of(const SmallModel& model) {
  const bool llama = is_llama_like(model.family);
  const std::int64_t heads = llama ? model.kv_heads * model.queries_per_head : model.kv_heads;
  const std::int64_t hidden = llama ? model.hidden : heads * model.head_size;
  const bool opt = model.family == "opt";
  std::string text = fmt::format(
      R"({{"model_type": "{}", "hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {})",
      model.family, hidden, model.layers, heads);
  if (llama) {
    text += fmt::format(R"(, "num_key_value_heads": {}, "head_dim": {}, "sliding_window": {})",
                        model.kv_heads, model.head_size, model.window);
  }
  if (model.family.starts_with("deepseek")) text += latent_fields(model);
  if (has_experts(model.family)) text += expert_fields(model);
  if (model.family == "granite") {
    text += R"(, "embedding_multiplier": 1.5, "residual_multiplier": 0.5, "logits_scaling": 3,)"
            R"( "attention_multiplier": 0.4)";
  }
  if (opt) {
    text += fmt::format(R"(, "do_layer_norm_before": {}, "word_embed_proj_dim": {})",
                        model.norm_first, model.width);
  }
  return text +
         fmt::format(
             R"(, "intermediate_size": {0}, "ffn_dim": {0}, "n_inner": {0}, "vocab_size": {1},)"
             R"( "max_position_embeddings": {2}, "embd_pdrop": {3}, "attn_pdrop": {3},)"
             R"( "resid_pdrop": {3}, "hidden_dropout": {3}, "attention_dropout": {3},)"
             R"( "residual_dropout": {3}, "dropout": {3}, "tie_word_embeddings": {4}, "attention_bias": {5},)"
             R"( "mlp_bias": {5}, "use_qk_norm": {5}, "rotary_pct": {6}, "partial_rotary_factor": {6},)"
             R"( "use_parallel_residual": {7}}})",
             model.ffn, model.vocabulary, model.positions, model.dropout, model.tied, model.bias,
             model.rotated, model.parallel);
}

inline Model small_model(const SmallModel& model) {
  return make_model(read_hugging_face(JsonInput::parse(config_of(model), model.family), "small"));
}

// The same for the same state of the generator with every standard library.
inline SmallModel random_small_model(std::mt19937& generator) {
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low +
           static_cast<std::int64_t>(generator() % static_cast<std::uint32_t>(high - low + 1));
  };
  SmallModel model;
  model.family = kSmallFamilies[static_cast<std::size_t>(
      between(0, static_cast<std::int64_t>(kSmallFamilies.size()) - 1))];
  model.hidden = 2 * between(4, 14);
  model.layers = between(2, 6);
  model.ffn = between(5, 40);
  model.vocabulary = between(11, 50);
  model.kv_heads = between(1, 4);
  model.queries_per_head = between(1, 3);
  model.head_size = 4 * between(1, 2);
  model.window = between(1, 10);
  model.dropout = between(0, 1) ? 0.1 : 0.0;
  model.rotated = between(0, 1) ? 0.5 : 1;
  model.tied = between(0, 1) == 1;
  model.bias = between(0, 1) == 1;
  model.parallel = between(0, 2) > 0;
  model.norm_first = between(0, 2) > 0;
  model.width = between(0, 1) ? model.kv_heads * model.head_size : 6;
  return model;
}

}  // namespace meshwright

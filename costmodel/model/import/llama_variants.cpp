#include <fmt/format.h>

#include "costmodel/model/import/decoder_families.h"
#include "costmodel/model/import/rope_config.h"

// Families that descend from llama, but whose layers have their norms, biases or scales elsewhere.
namespace meshwright {
namespace {

// Nothing where it changes nothing.
std::optional<double> read_multiplier(const ConfigReader& config, std::string_view key) {
  const double factor = config.number_or(key, 1);
  config.require(factor > 0, key, fmt::format("expected a number above 0, found {}", factor));
  return factor == 1 ? std::nullopt : std::optional(factor);
}

}  // namespace

DecoderSpec read_olmo2(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "Olmo2ForCausalLM",
                                       .bare = "Olmo2Model",
                                       .vocabulary = 50304,
                                       .hidden = 4096,
                                       .ffn = 11008,
                                       .layers = 32,
                                       .heads = 32,
                                       .kv_heads = {},
                                       .head_size = {},
                                       .epsilon = 1e-5});
  spec.norms = NormPlace::Last;
  spec.names.attention_norm = "post_attention_layernorm";
  spec.names.ffn_norm = "post_feedforward_layernorm";
  spec.qk_norm = QkNorm::AllHeads;
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  return spec;
}

DecoderSpec read_granite(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "GraniteForCausalLM",
                                       .bare = "GraniteModel",
                                       .vocabulary = 32000,
                                       .hidden = 4096,
                                       .ffn = 11008,
                                       .layers = 32,
                                       .heads = 32,
                                       .kv_heads = {},
                                       .head_size = {}});
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  spec.ffn_bias = config.flag_or("mlp_bias", false);
  spec.embedding_scale = read_multiplier(config, "embedding_multiplier");
  spec.branch_scale = read_multiplier(config, "residual_multiplier");
  spec.score_scale = read_multiplier(config, "attention_multiplier").value_or(1);
  // Logits are divided by it.
  if (const auto divisor = read_multiplier(config, "logits_scaling")) {
    spec.logit_scale = 1 / *divisor;
  }
  return spec;
}

DecoderSpec read_seed_oss(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "SeedOssForCausalLM",
                                       .bare = "SeedOssModel",
                                       .vocabulary = 155136,
                                       .hidden = 4096,
                                       .ffn = 27648,
                                       .layers = 64,
                                       .heads = 80,
                                       .kv_heads = 8,
                                       .head_size = 128});
  spec.qkv_bias = config.flag_or("attention_bias", true);
  spec.output_bias = config.flag_or("attention_out_bias", false);
  spec.ffn_bias = config.flag_or("mlp_bias", false);
  spec.attention_dropout = config.probability_or("attention_dropout", 0.1);
  spec.residual_dropout = config.probability_or("residual_dropout", 0.1);
  return spec;
}

DecoderSpec read_glm4(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "Glm4ForCausalLM",
                                       .bare = "Glm4Model",
                                       .vocabulary = 151552,
                                       .hidden = 4096,
                                       .ffn = 13696,
                                       .layers = 40,
                                       .heads = 32,
                                       .kv_heads = 2,
                                       .head_size = 128,
                                       .epsilon = 1.5625e-7});
  spec.norms = NormPlace::Around;
  spec.names.attention_end_norm = "post_self_attn_layernorm";
  spec.names.ffn_end_norm = "post_mlp_layernorm";
  spec.names.gate = spec.names.up = "mlp.gate_up_proj";
  spec.concatenated_gate = true;
  spec.qkv_bias = config.flag_or("attention_bias", true);
  auto& rope = std::get<RopeAttributes>(spec.positions);
  rope.rotated = read_rotated(config, spec.head_size, "partial_rotary_factor", 0.5);
  rope.neighbours = true;
  return spec;
}

}  // namespace meshwright

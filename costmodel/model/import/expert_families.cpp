#include <fmt/format.h>

#include <algorithm>

#include "costmodel/model/import/decoder_families.h"
#include "costmodel/model/import/rope_config.h"

namespace meshwright {
namespace {

void check_experts(const ConfigReader& config, const ExpertsSpec& experts) {
  config.require(
      experts.choices <= experts.experts, "num_experts_per_tok",
      fmt::format("{} experts cannot be chosen from {}", experts.choices, experts.experts));
}

void require_not_negative(const ConfigReader& config, std::string_view key, double number) {
  config.require(number >= 0, key, fmt::format("expected at least 0, found {}", number));
}

// The class adds one loss for all layers and choices, where the file asks for it: the number of
// experts times the sum over them of their choices by token times their mean share, both means over
// all layers. Here each layer has its part of it, over its own means, so that no layer needs to
// know of another; where choices are even it is the same.
void read_balance(const ConfigReader& config, DecoderSpec& spec) {
  const double factor = config.number_or("router_aux_loss_coef", 0.001);
  if (!config.flag_or("output_router_logits", false)) return;
  require_not_negative(config, "router_aux_loss_coef", factor);
  const auto layers = static_cast<double>(std::ranges::count(spec.sparse, true));
  if (layers == 0) return;
  spec.experts->router.balance = factor * static_cast<double>(spec.experts->choices) / layers;
}

// As DeepSeek's own class adds it, layer by layer; a file that says nothing has none. The rate at
// which the bias of the choice moves is not in these files: Megatron-Core's name for it.
void read_balance_deepseek(const ConfigReader& config, RouterAttributes& router) {
  router.balance = config.number_or("aux_loss_alpha", 0);
  require_not_negative(config, "aux_loss_alpha", router.balance);
  config.require(router.balance == 0 || config.flag_or("seq_aux", true), "seq_aux",
                 "only true is supported: a loss of the tokens of several sequences together would "
                 "depend on how a batch is cut");
  router.bias_rate = config.number_or("moe_router_bias_update_rate", 0);
  require_not_negative(config, "moe_router_bias_update_rate", router.bias_rate);
}

// Layer i has experts unless it is listed as dense or does not fall on the step.
std::vector<bool> qwen_sparse_layers(const ConfigReader& config, std::int64_t layers) {
  const std::int64_t step = config.size_or("decoder_sparse_step", 1);
  std::vector<bool> sparse;
  for (std::int64_t i = 0; i < layers; ++i) sparse.push_back((i + 1) % step == 0);
  if (const auto dense = config.json().find("mlp_only_layers")) {
    for (const JsonInput& layer : dense->elements()) {
      sparse[static_cast<std::size_t>(layer.integer(0, layers - 1))] = false;
    }
  }
  return sparse;
}

// Attention over positions that YaRN stretched is sharpened in the scores, not in q and k.
double score_factor(const ConfigReader& config, const RopeAttributes& rope) {
  if (rope.scaling != "yarn") return 1;
  const auto share = find_rope_scaling(config)->find("mscale_all_dim");
  const double scale = yarn_scale(rope.factor, share ? share->as<double>() : 0);
  return scale * scale;
}

LatentSpec read_latent(const ConfigReader& config) {
  LatentSpec latent;
  // A null says that queries are not compressed; a missing key says nothing.
  if (!config.json().has("q_lora_rank")) {
    latent.query_rank = 1536;
  } else {
    latent.query_rank = config.optional_size("q_lora_rank");
  }
  latent.key_value_rank = config.size("kv_lora_rank", 512);
  latent.nope_size = config.size("qk_nope_head_dim", 128);
  latent.rope_size = config.size("qk_rope_head_dim", 64);
  latent.value_size = config.size("v_head_dim", 128);
  return latent;
}

// What the classes that route as DeepSeek does have if a file says nothing.
struct RoutedDefaults {
  std::int64_t experts, choices, width, shared, groups, chosen_groups, dense;
  bool sigmoid, renormalize;
  double factor;
};

void read_routed(const ConfigReader& config, DecoderSpec& spec, const RoutedDefaults& defaults) {
  ExpertsSpec experts;
  experts.experts = config.size("n_routed_experts", defaults.experts);
  experts.choices = config.size("num_experts_per_tok", defaults.choices);
  experts.width = config.size("moe_intermediate_size", defaults.width);
  // All shared experts are one wide feed-forward.
  const std::int64_t shared = config.count_or("n_shared_experts", defaults.shared);
  if (shared > 0) experts.shared_width = shared * experts.width;
  experts.router = {.sigmoid = defaults.sigmoid,
                    .renormalize = config.flag_or("norm_topk_prob", defaults.renormalize),
                    .groups = config.size_or("n_group", defaults.groups),
                    .chosen_groups = config.size_or("topk_group", defaults.chosen_groups),
                    .factor = config.number_or("routed_scaling_factor", defaults.factor)};
  config.require(experts.router.chosen_groups <= experts.router.groups, "topk_group",
                 fmt::format("{} groups cannot be chosen from {}", experts.router.chosen_groups,
                             experts.router.groups));
  read_balance_deepseek(config, experts.router);
  check_experts(config, experts);
  spec.experts = experts;
  const std::int64_t dense = config.count_or("first_k_dense_replace", defaults.dense);
  for (std::int64_t i = 0; i < spec.layers; ++i) spec.sparse.push_back(i >= dense);
}

constexpr RoutedDefaults kDeepseekV2Experts{.experts = 64,
                                            .choices = 2,
                                            .width = 1407,
                                            .shared = 2,
                                            .groups = 1,
                                            .chosen_groups = 1,
                                            .dense = 0,
                                            .sigmoid = false,
                                            .renormalize = false,
                                            .factor = 1};
constexpr RoutedDefaults kDeepseekV3Experts{.experts = 256,
                                            .choices = 8,
                                            .width = 2048,
                                            .shared = 1,
                                            .groups = 8,
                                            .chosen_groups = 4,
                                            .dense = 3,
                                            .sigmoid = true,
                                            .renormalize = true,
                                            .factor = 2.5};
constexpr RoutedDefaults kGlm4Experts{.experts = 128,
                                      .choices = 8,
                                      .width = 1408,
                                      .shared = 1,
                                      .groups = 1,
                                      .chosen_groups = 1,
                                      .dense = 1,
                                      .sigmoid = true,
                                      .renormalize = true,
                                      .factor = 1};

DecoderSpec read_deepseek(const ConfigReader& config, const LlamaDefaults& defaults, bool v3) {
  auto spec = read_llama_like(config, defaults);
  spec.kv_heads = spec.heads;  // every head has its own keys; the key says nothing
  spec.latent = read_latent(config);
  RopeAttributes& rope = std::get<RopeAttributes>(spec.positions);
  rope.rotated = spec.latent->rope_size;
  // The class of V2 turns neighbours always, and leaves the scores as they are.
  rope.neighbours = !v3 || config.flag_or("rope_interleave", true);
  if (v3) spec.latent->score_factor = score_factor(config, rope);
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  config.require(config.size_or("moe_layer_freq", 1) == 1, "moe_layer_freq",
                 "only 1 (experts in every layer after the dense ones) is supported");
  read_routed(config, spec, v3 ? kDeepseekV3Experts : kDeepseekV2Experts);
  // As Megatron-Core calls them: the classes leave out what num_nextn_predict_layers counts.
  spec.further_tokens = config.count_or("mtp_num_layers", 0);
  spec.further_factor = config.number_or("mtp_loss_scaling_factor", 0.1);
  return spec;
}

}  // namespace

DecoderSpec read_mixtral(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "MixtralForCausalLM",
                                       .bare = "MixtralModel",
                                       .vocabulary = 32000,
                                       .hidden = 4096,
                                       .ffn = 14336,
                                       .layers = 32,
                                       .heads = 32,
                                       .kv_heads = 8,
                                       .head_size = {},
                                       .epsilon = 1e-5,
                                       .theta = 1e6});
  spec.names.router = "block_sparse_moe.gate";
  spec.names.experts = "block_sparse_moe.experts";
  spec.names.gate = "w1";
  spec.names.up = "w3";
  spec.names.down = "w2";
  spec.window = config.optional_size("sliding_window");
  ExpertsSpec experts;
  experts.experts = config.size("num_local_experts", 8);
  experts.choices = config.size("num_experts_per_tok", 2);
  experts.width = spec.ffn;
  experts.router.renormalize = true;
  check_experts(config, experts);
  spec.experts = experts;
  spec.sparse.assign(static_cast<std::size_t>(spec.layers), true);
  read_balance(config, spec);
  return spec;
}

DecoderSpec read_qwen2_moe(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "Qwen2MoeForCausalLM",
                                       .bare = "Qwen2MoeModel",
                                       .vocabulary = 151936,
                                       .hidden = 2048,
                                       .ffn = 5632,
                                       .layers = 24,
                                       .heads = 16,
                                       .kv_heads = 16,
                                       .head_size = {}});
  spec.qkv_bias = config.flag_or("qkv_bias", true);
  spec.names.shared_experts = "mlp.shared_expert";
  read_qwen_window(spec, config);
  ExpertsSpec experts;
  experts.experts = config.size("num_experts", 60);
  experts.choices = config.size("num_experts_per_tok", 4);
  experts.width = config.size("moe_intermediate_size", 1408);
  experts.shared_width = config.size("shared_expert_intermediate_size", 5632);
  experts.shared_gate = true;
  experts.router.renormalize = config.flag_or("norm_topk_prob", false);
  check_experts(config, experts);
  spec.experts = experts;
  spec.sparse = qwen_sparse_layers(config, spec.layers);
  read_balance(config, spec);
  return spec;
}

DecoderSpec read_qwen3_moe(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "Qwen3MoeForCausalLM",
                                       .bare = "Qwen3MoeModel",
                                       .vocabulary = 151936,
                                       .hidden = 2048,
                                       .ffn = 6144,
                                       .layers = 24,
                                       .heads = 32,
                                       .kv_heads = 4,
                                       .head_size = {}});
  spec.qk_norm = QkNorm::EachHead;
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  read_qwen_window(spec, config);
  ExpertsSpec experts;
  experts.experts = config.size("num_experts", 128);
  experts.choices = config.size("num_experts_per_tok", 8);
  experts.width = config.size("moe_intermediate_size", 768);
  experts.router.renormalize = config.flag_or("norm_topk_prob", false);
  check_experts(config, experts);
  spec.experts = experts;
  spec.sparse = qwen_sparse_layers(config, spec.layers);
  read_balance(config, spec);
  return spec;
}

DecoderSpec read_deepseek_v2(const ConfigReader& config) {
  return read_deepseek(config,
                       {.causal = "DeepseekV2ForCausalLM",
                        .bare = "DeepseekV2Model",
                        .vocabulary = 32000,
                        .hidden = 4096,
                        .ffn = 11008,
                        .layers = 32,
                        .heads = 32,
                        .kv_heads = {},
                        .head_size = 64},
                       false);
}

// The router's correction term is a buffer, and the class has no layers for predicting further
// tokens: neither counts as parameters.
DecoderSpec read_deepseek_v3(const ConfigReader& config) {
  return read_deepseek(config,
                       {.causal = "DeepseekV3ForCausalLM",
                        .bare = "DeepseekV3Model",
                        .vocabulary = 129280,
                        .hidden = 7168,
                        .ffn = 18432,
                        .layers = 61,
                        .heads = 128,
                        .kv_heads = {},
                        .head_size = 64},
                       true);
}

DecoderSpec read_glm4_moe(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "Glm4MoeForCausalLM",
                                       .bare = "Glm4MoeModel",
                                       .vocabulary = 151552,
                                       .hidden = 4096,
                                       .ffn = 10944,
                                       .layers = 46,
                                       .heads = 96,
                                       .kv_heads = 8,
                                       .head_size = {},
                                       .epsilon = 1e-5});
  spec.qkv_bias = config.flag_or("attention_bias", false);
  if (config.flag_or("use_qk_norm", false)) spec.qk_norm = QkNorm::EachHead;
  std::get<RopeAttributes>(spec.positions).rotated =
      read_rotated(config, spec.head_size, "partial_rotary_factor", 0.5);
  read_routed(config, spec, kGlm4Experts);
  return spec;
}

}  // namespace meshwright

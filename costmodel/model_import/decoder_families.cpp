#include <fmt/format.h>

#include <array>
#include <cmath>

#include "costmodel/model_import/decoder_spec.h"

// Each family's keys, defaults and peculiarities, as its class in transformers 4.57 has them.
namespace meshwright {
namespace {

DecoderNames llama_names() {
  return {.embedding = "embed_tokens",
          .layers = "layers",
          .attention_norm = "input_layernorm",
          .ffn_norm = "post_attention_layernorm",
          .qkv = "self_attn.qkv_proj",
          .q = "self_attn.q_proj",
          .k = "self_attn.k_proj",
          .v = "self_attn.v_proj",
          .q_norm = "self_attn.q_norm",
          .k_norm = "self_attn.k_norm",
          .output = "self_attn.o_proj",
          .gate = "mlp.gate_proj",
          .up = "mlp.up_proj",
          .down = "mlp.down_proj",
          .router = "mlp.gate",
          .experts = "mlp.experts",
          .shared_experts = "mlp.shared_experts",
          .shared_gate = "mlp.shared_expert_gate",
          .final_norm = "norm",
          .head = "lm_head"};
}

// Sets whether the class has a head, and the prefix that goes with it.
void read_class(DecoderSpec& spec, const ConfigReader& config, std::string_view causal,
                std::string_view bare, std::string prefix) {
  spec.has_head = config.architecture({causal, bare}) == 0;
  spec.prefix = spec.has_head ? std::move(prefix) : "";
}

void check_heads(const ConfigReader& config, const DecoderSpec& spec, std::string_view heads_key) {
  config.require(spec.heads % spec.kv_heads == 0, "num_key_value_heads",
                 fmt::format("{} heads cannot be divided among {}", spec.heads, spec.kv_heads));
  config.require(spec.head_size > 0, heads_key,
                 fmt::format("more heads ({}) than entries ({})", spec.heads, spec.hidden));
}

std::int64_t divided_head_size(const ConfigReader& config, const DecoderSpec& spec,
                               std::string_view heads_key) {
  config.require(
      spec.hidden % spec.heads == 0, heads_key,
      fmt::format("{} entries cannot be divided among {} heads", spec.hidden, spec.heads));
  return spec.hidden / spec.heads;
}

double positive_number(const JsonInput& json, std::string_view key) {
  const JsonInput field = json.at(key);
  const auto number = field.as<double>();
  if (!(number > 0)) field.fail_expected("a number above 0");
  return number;
}

RopeAttributes read_rope(const ConfigReader& config, std::int64_t rotated, double default_theta) {
  RopeAttributes rope{
      .theta = config.number_or("rope_theta", default_theta), .rotated = rotated, .scaling = ""};
  if (const auto scaling = config.json().find("rope_scaling")) {
    const auto type = scaling->optional<std::string>("rope_type");
    rope.scaling = type ? *type : scaling->value_or<std::string>("type", "unnamed");
    if (rope.scaling == "default") rope.scaling.clear();
    if (rope.scaling == "linear" || rope.scaling == "llama3") {
      rope.factor = positive_number(*scaling, "factor");
    }
    if (rope.scaling == "llama3") {
      rope.low_factor = positive_number(*scaling, "low_freq_factor");
      rope.high_factor = positive_number(*scaling, "high_freq_factor");
      const JsonInput positions = scaling->at("original_max_position_embeddings");
      rope.original_positions = positions.integer(1, std::int64_t{1} << 40);
    }
  }
  return rope;
}

std::int64_t rotated_part(const DecoderSpec& spec, double share) {
  return static_cast<std::int64_t>(static_cast<double>(spec.head_size) * share);
}

// What differs among the families that descend from llama.
struct LlamaDefaults {
  std::string_view causal, bare;
  std::int64_t vocabulary, hidden, ffn, layers, heads;
  std::optional<std::int64_t> kv_heads;  // none: as many as heads
  std::optional<std::int64_t> head_size;
  double epsilon = 1e-6, theta = 1e4;
  bool tied = false;
};

// The keys all of them share.
DecoderSpec read_llama_like(const ConfigReader& config, const LlamaDefaults& defaults) {
  DecoderSpec spec;
  spec.names = llama_names();
  read_class(spec, config, defaults.causal, defaults.bare, "model.");
  spec.vocabulary = config.size("vocab_size", defaults.vocabulary);
  spec.hidden = config.size("hidden_size", defaults.hidden);
  spec.embedding_width = spec.hidden;
  spec.ffn = config.size("intermediate_size", defaults.ffn);
  spec.layers = config.layers({"num_hidden_layers"}, defaults.layers);
  spec.heads = config.size("num_attention_heads", defaults.heads);
  spec.kv_heads = config.size_or("num_key_value_heads", defaults.kv_heads.value_or(spec.heads));
  const auto head_size = config.optional_size("head_dim");
  if (head_size || defaults.head_size) {
    spec.head_size = head_size.value_or(defaults.head_size.value_or(0));
  } else {
    spec.head_size = divided_head_size(config, spec, "num_attention_heads");
  }
  check_heads(config, spec, "num_attention_heads");
  spec.tied = config.flag_or("tie_word_embeddings", defaults.tied);
  spec.norm = OpKind::RmsNorm;
  spec.norm_attributes.epsilon = config.number_or("rms_norm_eps", defaults.epsilon);
  spec.positions = read_rope(config, spec.head_size, defaults.theta);
  spec.attention_dropout = config.probability_or("attention_dropout", 0);
  spec.function = config.function_or("hidden_act", "silu");
  spec.gated = true;
  return spec;
}

DecoderSpec read_llama(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "LlamaForCausalLM",
                                       .bare = "LlamaModel",
                                       .vocabulary = 32000,
                                       .hidden = 4096,
                                       .ffn = 11008,
                                       .layers = 32,
                                       .heads = 32,
                                       .kv_heads = {},
                                       .head_size = {}});
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  spec.ffn_bias = config.flag_or("mlp_bias", false);
  return spec;
}

DecoderSpec read_mistral(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "MistralForCausalLM",
                                       .bare = "MistralModel",
                                       .vocabulary = 32000,
                                       .hidden = 4096,
                                       .ffn = 14336,
                                       .layers = 32,
                                       .heads = 32,
                                       .kv_heads = 8,
                                       .head_size = {}});
  spec.window = config.optional_size("sliding_window");
  return spec;
}

void read_qwen_window(DecoderSpec& spec, const ConfigReader& config) {
  if (config.flag_or("use_sliding_window", false)) {
    spec.window = config.optional_size("sliding_window");
  }
}

DecoderSpec read_qwen2(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "Qwen2ForCausalLM",
                                       .bare = "Qwen2Model",
                                       .vocabulary = 151936,
                                       .hidden = 4096,
                                       .ffn = 22016,
                                       .layers = 32,
                                       .heads = 32,
                                       .kv_heads = 32,
                                       .head_size = {}});
  spec.qkv_bias = true;  // no key says so
  read_qwen_window(spec, config);
  return spec;
}

DecoderSpec read_qwen3(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "Qwen3ForCausalLM",
                                       .bare = "Qwen3Model",
                                       .vocabulary = 151936,
                                       .hidden = 4096,
                                       .ffn = 22016,
                                       .layers = 32,
                                       .heads = 32,
                                       .kv_heads = 32,
                                       .head_size = 128});
  spec.qk_norm = true;
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  read_qwen_window(spec, config);
  return spec;
}

DecoderSpec read_gemma(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "GemmaForCausalLM",
                                       .bare = "GemmaModel",
                                       .vocabulary = 256000,
                                       .hidden = 3072,
                                       .ffn = 24576,
                                       .layers = 28,
                                       .heads = 16,
                                       .kv_heads = 16,
                                       .head_size = 256,
                                       .tied = true});
  spec.function = config.function_or("hidden_act", "gelu_pytorch_tanh");
  spec.norm_attributes.gain_plus_one = true;
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden));
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  return spec;
}

DecoderSpec read_phi3(const ConfigReader& config) {
  auto spec = read_llama_like(config, {.causal = "Phi3ForCausalLM",
                                       .bare = "Phi3Model",
                                       .vocabulary = 32064,
                                       .hidden = 3072,
                                       .ffn = 8192,
                                       .layers = 32,
                                       .heads = 32,
                                       .kv_heads = {},
                                       .head_size = {},
                                       .epsilon = 1e-5});
  spec.qkv_form = QkvForm::Concatenated;
  spec.names.gate = spec.names.up = "mlp.gate_up_proj";
  spec.concatenated_gate = true;
  spec.residual_dropout = config.probability_or("resid_pdrop", 0);
  spec.embedding_dropout = config.probability_or("embd_pdrop", 0);
  spec.window = config.optional_size("sliding_window");
  std::get<RopeAttributes>(spec.positions).rotated =
      rotated_part(spec, config.share_or("partial_rotary_factor", 1));
  return spec;
}

void check_experts(const ConfigReader& config, const ExpertsSpec& experts) {
  config.require(
      experts.choices <= experts.experts, "num_experts_per_tok",
      fmt::format("{} experts cannot be chosen from {}", experts.choices, experts.experts));
}

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
  return spec;
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
  spec.qk_norm = true;
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
  return spec;
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

DecoderSpec read_deepseek(const ConfigReader& config, const LlamaDefaults& defaults, bool v3) {
  auto spec = read_llama_like(config, defaults);
  spec.kv_heads = spec.heads;  // every head has its own keys; the key says nothing
  spec.latent = read_latent(config);
  std::get<RopeAttributes>(spec.positions).rotated = spec.latent->rope_size;
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  config.require(config.size_or("moe_layer_freq", 1) == 1, "moe_layer_freq",
                 "only 1 (experts in every layer after the dense ones) is supported");
  ExpertsSpec experts;
  experts.experts = config.size("n_routed_experts", v3 ? 256 : 64);
  experts.choices = config.size("num_experts_per_tok", v3 ? 8 : 2);
  experts.width = config.size("moe_intermediate_size", v3 ? 2048 : 1407);
  // All shared experts are one wide feed-forward.
  const std::int64_t shared = config.count_or("n_shared_experts", v3 ? 1 : 2);
  if (shared > 0) experts.shared_width = shared * experts.width;
  experts.router = {.sigmoid = v3,
                    .renormalize = config.flag_or("norm_topk_prob", v3),
                    .groups = config.size_or("n_group", v3 ? 8 : 1),
                    .chosen_groups = config.size_or("topk_group", v3 ? 4 : 1),
                    .factor = config.number_or("routed_scaling_factor", v3 ? 2.5 : 1)};
  config.require(experts.router.chosen_groups <= experts.router.groups, "topk_group",
                 fmt::format("{} groups cannot be chosen from {}", experts.router.chosen_groups,
                             experts.router.groups));
  check_experts(config, experts);
  spec.experts = experts;
  const std::int64_t dense = config.count_or("first_k_dense_replace", v3 ? 3 : 0);
  for (std::int64_t i = 0; i < spec.layers; ++i) spec.sparse.push_back(i >= dense);
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

DecoderSpec read_gpt2(const ConfigReader& config) {
  DecoderSpec spec;
  read_class(spec, config, "GPT2LMHeadModel", "GPT2Model", "transformer.");
  spec.names = {.embedding = "wte",
                .positions = "wpe",
                .layers = "h",
                .attention_norm = "ln_1",
                .ffn_norm = "ln_2",
                .qkv = "attn.c_attn",
                .output = "attn.c_proj",
                .up = "mlp.c_fc",
                .down = "mlp.c_proj",
                .final_norm = "ln_f",
                .head = "lm_head"};
  spec.vocabulary = config.size("vocab_size", 50257);
  spec.hidden = spec.embedding_width = config.size({"n_embd", "hidden_size"}, 768);
  spec.layers = config.layers({"n_layer", "num_hidden_layers"}, 12);
  spec.heads = spec.kv_heads = config.size({"n_head", "num_attention_heads"}, 12);
  spec.head_size = divided_head_size(config, spec, "n_head");
  spec.ffn = config.size_or("n_inner", 4 * spec.hidden);
  spec.positions = LearnedPositions{config.size({"n_positions", "max_position_embeddings"}, 1024)};
  config.require(!config.flag_or("add_cross_attention", false), "add_cross_attention",
                 "cross attention is not supported");
  spec.tied = config.flag_or("tie_word_embeddings", true);
  spec.norm_attributes.epsilon = config.number_or("layer_norm_epsilon", 1e-5);
  spec.embedding_dropout = config.probability_or("embd_pdrop", 0.1);
  spec.attention_dropout = config.probability_or("attn_pdrop", 0.1);
  spec.residual_dropout = config.probability_or("resid_pdrop", 0.1);
  spec.function = config.function_or("activation_function", "gelu_new");
  spec.input_major = true;
  spec.qkv_form = QkvForm::ThreeFirst;
  spec.qkv_bias = spec.output_bias = spec.ffn_bias = true;
  return spec;
}

DecoderSpec read_gpt_neox(const ConfigReader& config) {
  DecoderSpec spec;
  read_class(spec, config, "GPTNeoXForCausalLM", "GPTNeoXModel", "gpt_neox.");
  spec.names = {.embedding = "embed_in",
                .layers = "layers",
                .attention_norm = "input_layernorm",
                .ffn_norm = "post_attention_layernorm",
                .qkv = "attention.query_key_value",
                .output = "attention.dense",
                .up = "mlp.dense_h_to_4h",
                .down = "mlp.dense_4h_to_h",
                .final_norm = "final_layer_norm",
                .head = "embed_out"};
  spec.vocabulary = config.size("vocab_size", 50432);
  spec.hidden = spec.embedding_width = config.size("hidden_size", 6144);
  spec.layers = config.layers({"num_hidden_layers"}, 44);
  spec.heads = spec.kv_heads = config.size("num_attention_heads", 64);
  spec.head_size = divided_head_size(config, spec, "num_attention_heads");
  spec.ffn = config.size("intermediate_size", 24576);
  spec.positions =
      RopeAttributes{.theta = config.number_or("rotary_emb_base", 1e4),
                     .rotated = rotated_part(spec, config.share_or("rotary_pct", 0.25)),
                     .scaling = ""};
  spec.tied = config.flag_or("tie_word_embeddings", false);
  spec.norm_attributes.epsilon = config.number_or("layer_norm_eps", 1e-5);
  spec.attention_dropout = config.probability_or("attention_dropout", 0);
  spec.residual_dropout = config.probability_or("hidden_dropout", 0);
  spec.embedding_dropout = spec.residual_dropout;
  spec.parallel_residual = config.flag_or("use_parallel_residual", true);
  spec.function = config.function_or("hidden_act", "gelu");
  spec.qkv_form = QkvForm::HeadsFirst;
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", true);
  spec.ffn_bias = true;
  return spec;
}

DecoderSpec read_opt(const ConfigReader& config) {
  DecoderSpec spec;
  read_class(spec, config, "OPTForCausalLM", "OPTModel", "model.decoder.");
  if (!spec.has_head) spec.prefix = "decoder.";
  spec.names = {.embedding = "embed_tokens",
                .positions = "embed_positions",
                .project_in = "project_in",
                .project_out = "project_out",
                .layers = "layers",
                .attention_norm = "self_attn_layer_norm",
                .ffn_norm = "final_layer_norm",
                .q = "self_attn.q_proj",
                .k = "self_attn.k_proj",
                .v = "self_attn.v_proj",
                .output = "self_attn.out_proj",
                .up = "fc1",
                .down = "fc2",
                .final_norm = "final_layer_norm",
                .head = "lm_head"};
  spec.vocabulary = config.size("vocab_size", 50272);
  spec.hidden = config.size("hidden_size", 768);
  spec.embedding_width = config.size_or("word_embed_proj_dim", spec.hidden);
  spec.layers = config.layers({"num_hidden_layers"}, 12);
  spec.heads = spec.kv_heads = config.size("num_attention_heads", 12);
  spec.head_size = divided_head_size(config, spec, "num_attention_heads");
  spec.ffn = config.size("ffn_dim", 3072);
  // The first two rows stand for padding.
  spec.positions =
      LearnedPositions{.rows = config.size("max_position_embeddings", 2048) + 2, .reserved = 2};
  config.require(config.flag_or("layer_norm_elementwise_affine", true),
                 "layer_norm_elementwise_affine", "norms without weights are not supported");
  spec.tied = config.flag_or("tie_word_embeddings", true);
  spec.norm_first = config.flag_or("do_layer_norm_before", true);
  spec.final_norm = spec.norm_first && !config.flag_or("_remove_final_layer_norm", false);
  spec.residual_dropout = config.probability_or("dropout", 0.1);
  spec.attention_dropout = config.probability_or("attention_dropout", 0);
  spec.function = config.function_or("activation_function", "relu");
  spec.qkv_bias = spec.output_bias = spec.ffn_bias = config.flag_or("enable_bias", true);
  return spec;
}

DecoderSpec read_bloom(const ConfigReader& config) {
  DecoderSpec spec;
  read_class(spec, config, "BloomForCausalLM", "BloomModel", "transformer.");
  spec.names = {.embedding = "word_embeddings",
                .embedding_norm = "word_embeddings_layernorm",
                .layers = "h",
                .attention_norm = "input_layernorm",
                .ffn_norm = "post_attention_layernorm",
                .qkv = "self_attention.query_key_value",
                .output = "self_attention.dense",
                .up = "mlp.dense_h_to_4h",
                .down = "mlp.dense_4h_to_h",
                .final_norm = "ln_f",
                .head = "lm_head"};
  spec.vocabulary = config.size("vocab_size", 250880);
  spec.hidden = spec.embedding_width = config.size({"hidden_size", "n_embed", "n_embd"}, 64);
  spec.layers = config.layers({"n_layer", "num_hidden_layers"}, 2);
  spec.heads = spec.kv_heads = config.size({"n_head", "num_attention_heads"}, 8);
  spec.head_size = divided_head_size(config, spec, "n_head");
  spec.ffn = 4 * spec.hidden;
  spec.positions = AlibiPositions{};
  spec.embedding_norm = true;
  spec.tied = config.flag_or("tie_word_embeddings", true);
  spec.norm_attributes.epsilon = config.number_or("layer_norm_epsilon", 1e-5);
  spec.residual_dropout = config.probability_or("hidden_dropout", 0);
  spec.attention_dropout = config.probability_or("attention_dropout", 0);
  spec.function = Function::GeluTanh;
  spec.qkv_form = QkvForm::HeadsFirst;
  spec.qkv_bias = spec.output_bias = spec.ffn_bias = true;
  return spec;
}

using Reader = DecoderSpec (*)(const ConfigReader&);
constexpr std::array<std::pair<std::string_view, Reader>, 15> kFamilies = {{
    {"gpt2", read_gpt2},
    {"gpt_neox", read_gpt_neox},
    {"opt", read_opt},
    {"bloom", read_bloom},
    {"llama", read_llama},
    {"mistral", read_mistral},
    {"qwen2", read_qwen2},
    {"qwen3", read_qwen3},
    {"gemma", read_gemma},
    {"phi3", read_phi3},
    {"mixtral", read_mixtral},
    {"qwen2_moe", read_qwen2_moe},
    {"qwen3_moe", read_qwen3_moe},
    {"deepseek_v2", read_deepseek_v2},
    {"deepseek_v3", read_deepseek_v3},
}};

}  // namespace

std::optional<DecoderSpec> read_decoder_spec(const std::string& family,
                                             const ConfigReader& config) {
  for (const auto& [name, read] : kFamilies) {
    if (name == family) return read(config);
  }
  return std::nullopt;
}

}  // namespace meshwright

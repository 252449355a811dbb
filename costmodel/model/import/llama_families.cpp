#include <cmath>

#include "costmodel/model/import/decoder_families.h"
#include "costmodel/model/import/rope_config.h"

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

}  // namespace

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
  spec.qk_norm = QkNorm::EachHead;
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
      read_rotated(config, spec.head_size, "partial_rotary_factor", 1);
  return spec;
}

}  // namespace meshwright

#include "costmodel/model/import/decoder_families.h"
#include "costmodel/model/import/rope_config.h"

namespace meshwright {

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
      RopeAttributes{.theta = read_theta(config, "rotary_emb_base", 1e4),
                     .rotated = read_rotated(config, spec.head_size, "rotary_pct", 0.25),
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
  const bool first = config.flag_or("do_layer_norm_before", true);
  spec.norms = first ? NormPlace::First : NormPlace::AfterSum;
  spec.final_norm = first && !config.flag_or("_remove_final_layer_norm", false);
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

}  // namespace meshwright

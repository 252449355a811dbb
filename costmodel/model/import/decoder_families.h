#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "costmodel/model/import/decoder_spec.h"

// Each family's keys, defaults and peculiarities, as its class in transformers 4.57 has them, and
// what the readers of families share.
namespace meshwright {

// Sets whether the class has a head, and the prefix that goes with it.
void read_class(DecoderSpec& spec, const ConfigReader& config, std::string_view causal,
                std::string_view bare, std::string prefix);
void check_heads(const ConfigReader& config, const DecoderSpec& spec, std::string_view heads_key);
std::int64_t divided_head_size(const ConfigReader& config, const DecoderSpec& spec,
                               std::string_view heads_key);

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
DecoderSpec read_llama_like(const ConfigReader& config, const LlamaDefaults& defaults);

// llama_families.cpp
void read_qwen_window(DecoderSpec& spec, const ConfigReader& config);
DecoderSpec read_llama(const ConfigReader& config);
DecoderSpec read_mistral(const ConfigReader& config);
DecoderSpec read_qwen2(const ConfigReader& config);
DecoderSpec read_qwen3(const ConfigReader& config);
DecoderSpec read_gemma(const ConfigReader& config);
DecoderSpec read_phi3(const ConfigReader& config);

// llama_variants.cpp
DecoderSpec read_olmo2(const ConfigReader& config);
DecoderSpec read_granite(const ConfigReader& config);
DecoderSpec read_seed_oss(const ConfigReader& config);
DecoderSpec read_glm4(const ConfigReader& config);

// expert_families.cpp
DecoderSpec read_mixtral(const ConfigReader& config);
DecoderSpec read_qwen2_moe(const ConfigReader& config);
DecoderSpec read_qwen3_moe(const ConfigReader& config);
DecoderSpec read_deepseek_v2(const ConfigReader& config);
DecoderSpec read_deepseek_v3(const ConfigReader& config);
DecoderSpec read_glm4_moe(const ConfigReader& config);

// gpt_families.cpp
DecoderSpec read_gpt2(const ConfigReader& config);
DecoderSpec read_gpt_neox(const ConfigReader& config);
DecoderSpec read_opt(const ConfigReader& config);
DecoderSpec read_bloom(const ConfigReader& config);

}  // namespace meshwright

#include "costmodel/model/import/decoder_families.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace meshwright {
namespace {

using Reader = DecoderSpec (*)(const ConfigReader&);
constexpr std::array<std::pair<std::string_view, Reader>, 21> kFamilies = {{
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
    {"olmo2", read_olmo2},
    {"granite", read_granite},
    {"seed_oss", read_seed_oss},
    {"glm4", read_glm4},
    {"mixtral", read_mixtral},
    {"qwen2_moe", read_qwen2_moe},
    {"qwen3_moe", read_qwen3_moe},
    {"deepseek_v2", read_deepseek_v2},
    {"deepseek_v3", read_deepseek_v3},
    {"kimi_k2", read_deepseek_v3},  // by its own name the same class
    {"glm4_moe", read_glm4_moe},
}};

}  // namespace

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

std::optional<DecoderSpec> read_decoder_spec(const std::string& family,
                                             const ConfigReader& config) {
  for (const auto& [name, read] : kFamilies) {
    if (name == family) return read(config);
  }
  return std::nullopt;
}

}  // namespace meshwright

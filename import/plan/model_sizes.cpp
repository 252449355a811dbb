#include "import/plan/model_sizes.h"

#include <algorithm>
#include <cctype>

#include "costmodel/base/json_input.h"
#include "costmodel/base/presets.h"

namespace meshwright {
namespace {

// The first of the names that families have for a size.
std::optional<std::int64_t> first_of(const JsonInput& config,
                                     std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto value = config.optional<std::int64_t>(name)) return value;
  }
  return {};
}

// Whether what is said is the same; a preset that does not say it has the family's usual one.
bool agrees(const std::optional<std::int64_t>& said, const std::optional<std::int64_t>& preset) {
  return !said || !preset || *said == *preset;
}

}  // namespace

ModelSizes sizes_of_preset(const std::string& name, const std::filesystem::path& data) {
  const JsonInput config = JsonInput::read(data / "models" / (name + ".json"));
  ModelSizes sizes{
      .layers = first_of(config, {"num_hidden_layers", "n_layer", "num_layers"}),
      .hidden = first_of(config, {"hidden_size", "n_embd", "d_model"}),
      .heads = first_of(config, {"num_attention_heads", "n_head", "num_heads"}),
      .kv_heads = first_of(config, {"num_key_value_heads"}),
      .ffn = first_of(config, {"intermediate_size", "n_inner", "ffn_dim", "d_ff"}),
      .vocabulary = first_of(config, {"vocab_size"}),
      .experts =
          first_of(config, {"num_local_experts", "num_experts", "n_routed_experts"}).value_or(0)};
  if (!sizes.kv_heads) sizes.kv_heads = sizes.heads;
  return sizes;
}

std::vector<std::string> presets_called(const std::string& name,
                                        const std::filesystem::path& data) {
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto presets = preset_names(data / "models");
  if (std::ranges::find(presets, lower) == presets.end()) return {};
  return {lower};
}

std::vector<std::string> presets_like(const ModelSizes& sizes, const std::filesystem::path& data) {
  std::vector<std::string> alike;
  if (!sizes.layers || !sizes.hidden) return alike;
  for (const std::string& name : preset_names(data / "models")) {
    const ModelSizes preset = sizes_of_preset(name, data);
    if (preset.layers == sizes.layers && preset.hidden == sizes.hidden &&
        agrees(sizes.heads, preset.heads) && agrees(sizes.kv_heads, preset.kv_heads) &&
        agrees(sizes.ffn, preset.ffn) && agrees(sizes.experts, preset.experts)) {
      alike.push_back(name);
    }
  }
  return alike;
}

}  // namespace meshwright

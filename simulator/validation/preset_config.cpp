#include "simulator/validation/preset_config.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "costmodel/base/csv_input.h"
#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

struct NamedPreset {
  std::string name;
  std::optional<std::int64_t> dense_layers;  // first ones; none: as many as the preset has
};

std::optional<NamedPreset> preset_named(const std::string& model,
                                        const std::filesystem::path& data) {
  const CsvInput table = CsvInput::read(data / "published" / "models.csv");
  table.require_columns({"model", "preset", "dense_layers"});
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, "model") != model) continue;
    return NamedPreset{table.text(row, "preset").value_or(""), table.integer(row, "dense_layers")};
  }
  return std::nullopt;
}

// The first of several keys that the config has.
std::optional<std::int64_t> size_in(const nlohmann::json& config,
                                    std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_number_integer()) return found->get<std::int64_t>();
  }
  return std::nullopt;
}

// What the row says otherwise than the preset; empty: nothing.
std::string difference(const PublishedRun& run, const nlohmann::json& config,
                       const std::string& preset) {
  struct Size {
    const char* column;
    std::optional<std::int64_t> said, has;
  };
  const std::array sizes = {
      Size{"hidden", run.hidden, size_in(config, {"hidden_size"})},
      Size{"heads", run.heads, size_in(config, {"num_attention_heads"})},
      Size{"kv_heads", run.kv_heads, size_in(config, {"num_key_value_heads"})},
      Size{"ffn_hidden", run.ffn, size_in(config, {"moe_intermediate_size", "intermediate_size"})},
      Size{"experts", run.experts,
           size_in(config, {"n_routed_experts", "num_experts", "num_local_experts"})},
      Size{"top_k", run.top_k, size_in(config, {"num_experts_per_tok"})}};
  for (const Size& size : sizes) {
    if (!size.said || !size.has || *size.said == *size.has) continue;
    return fmt::format("{} = {}, but {} has {}", size.column, *size.said, preset, *size.has);
  }
  return "";
}

}  // namespace

std::variant<RunConfig, std::string> preset_config(const PublishedRun& run, std::int64_t vocabulary,
                                                   const std::filesystem::path& data) {
  const auto preset = preset_named(run.model, data);
  if (!preset) return fmt::format("no preset is named for the model {}", printable(run.model));
  std::ifstream file(data / "models" / (preset->name + ".json"));
  nlohmann::json config = nlohmann::json::parse(file, nullptr, false);
  if (!config.is_object()) return fmt::format("there is no preset {}", printable(preset->name));
  if (std::string problem = difference(run, config, preset->name); !problem.empty()) {
    return problem;
  }
  config["num_hidden_layers"] = *run.layers;
  config["vocab_size"] = vocabulary;
  if (preset->dense_layers) config["first_k_dense_replace"] = *preset->dense_layers;
  if (run.has_option("mtp")) {
    if (config.value("model_type", "") != "deepseek_v3") {
      return fmt::format("layers of {} that predict further tokens are not expressed",
                         preset->name);
    }
    config["mtp_num_layers"] = 1;
  }
  return RunConfig{config.dump()};
}

}  // namespace meshwright

#include "costmodel/model/import/rope_config.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>

namespace meshwright {
namespace {

double positive_number(const JsonInput& json, std::string_view key) {
  const JsonInput field = json.at(key);
  const auto number = field.as<double>();
  if (!(number > 0)) field.fail_expected("a number above 0");
  return number;
}

// As Hugging Face's modeling_rope_utils.py has it, where a 0 says nothing.
void read_yarn(RopeAttributes& rope, const ConfigReader& config, const JsonInput& scaling) {
  const auto number = [&](std::string_view key) -> std::optional<double> {
    const auto field = scaling.find(key);
    if (!field || field->as<double>() == 0) return std::nullopt;
    return positive_number(scaling, key);
  };
  rope.factor = positive_number(scaling, "factor");
  rope.low_factor = number("beta_slow").value_or(1);
  rope.high_factor = number("beta_fast").value_or(32);
  const auto positions = scaling.find("original_max_position_embeddings");
  rope.original_positions = positions ? positions->integer(1, std::int64_t{1} << 40)
                                      : config.size("max_position_embeddings", 2048);
  const auto scale = number("mscale"), scale_all = number("mscale_all_dim");
  rope.attention_factor =
      scale && scale_all ? yarn_scale(rope.factor, *scale) / yarn_scale(rope.factor, *scale_all)
                         : yarn_scale(rope.factor, 1);
  rope.attention_factor = number("attention_factor").value_or(rope.attention_factor);
}

// A number that transformers 5 keeps with the scaling, and 4 beside it as `key`.
double number_beside(const ConfigReader& config, std::string_view name, std::string_view key,
                     double otherwise) {
  const auto scaling = find_rope_scaling(config);
  const auto inside = scaling ? scaling->optional<double>(name) : std::nullopt;
  return inside ? *inside : config.number_or(key, otherwise);
}

}  // namespace

std::optional<JsonInput> find_rope_scaling(const ConfigReader& config) {
  const auto scaling = config.json().find("rope_scaling");
  return scaling ? scaling : config.json().find("rope_parameters");
}

double read_theta(const ConfigReader& config, std::string_view theta_key, double otherwise) {
  return number_beside(config, "rope_theta", theta_key, otherwise);
}

std::int64_t read_rotated(const ConfigReader& config, std::int64_t head_size,
                          std::string_view share_key, double otherwise) {
  const double share = number_beside(config, "partial_rotary_factor", share_key, otherwise);
  config.require(share >= 0 && share <= 1, share_key,
                 fmt::format("expected a number from 0 to 1, found {}", share));
  return static_cast<std::int64_t>(static_cast<double>(head_size) * share);
}

RopeAttributes read_rope(const ConfigReader& config, std::int64_t rotated, double default_theta) {
  RopeAttributes rope{
      .theta = read_theta(config, "rope_theta", default_theta), .rotated = rotated, .scaling = ""};
  if (const auto scaling = find_rope_scaling(config)) {
    const auto type = scaling->optional<std::string>("rope_type");
    rope.scaling = type ? *type : scaling->value_or<std::string>("type", "unnamed");
    if (rope.scaling == "default") rope.scaling.clear();
    if (rope.scaling == "linear" || rope.scaling == "llama3") {
      rope.factor = positive_number(*scaling, "factor");
    }
    if (rope.scaling == "yarn") read_yarn(rope, config, *scaling);
    if (rope.scaling == "llama3") {
      rope.low_factor = positive_number(*scaling, "low_freq_factor");
      rope.high_factor = positive_number(*scaling, "high_freq_factor");
      const JsonInput positions = scaling->at("original_max_position_embeddings");
      rope.original_positions = positions.integer(1, std::int64_t{1} << 40);
    }
  }
  return rope;
}

double yarn_scale(double factor, double share) {
  return factor <= 1 ? 1 : 0.1 * share * std::log(factor) + 1;
}

}  // namespace meshwright

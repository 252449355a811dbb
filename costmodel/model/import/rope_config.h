#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "costmodel/model/import/config_reader.h"
#include "costmodel/model/op.h"

// How queries and keys turn with their position. Transformers 4 wrote `rope_theta`,
// `partial_rotary_factor` and `rope_scaling` side by side; 5 writes them as one `rope_parameters`.
namespace meshwright {

// The object that may change the frequencies. Nothing: the file has none.
std::optional<JsonInput> find_rope_scaling(const ConfigReader& config);

// `theta_key`, `share_key`: what the family called them before transformers 5.
double read_theta(const ConfigReader& config, std::string_view theta_key, double otherwise);
std::int64_t read_rotated(const ConfigReader& config, std::int64_t head_size,
                          std::string_view share_key, double otherwise);

RopeAttributes read_rope(const ConfigReader& config, std::int64_t rotated, double default_theta);

// How much YaRN sharpens attention over positions that were stretched.
double yarn_scale(double factor, double share);

}  // namespace meshwright

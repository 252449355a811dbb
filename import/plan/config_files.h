#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "import/plan/foreign_settings.h"

// Readers of configuration files: every value as a setting whose key names the tables around it
// with dots ("parallelism.tp"), elements of lists of tables with [0]. Each throws InputError with
// `source` and, where the format knows it, the line.
namespace meshwright {

inline constexpr int kDeepestConfig = 64;
// Every value below a key repeats it.
inline constexpr std::size_t kLongestKey = 256;

// No aliases: a file of a kilobyte could stand for a petabyte.
std::vector<ForeignSetting> parse_yaml(std::string_view text, const std::string& source);
std::vector<ForeignSetting> parse_toml(std::string_view text, const std::string& source);
std::vector<ForeignSetting> parse_json(std::string_view text, const std::string& source);

}  // namespace meshwright

#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "import/plan/foreign_settings.h"

namespace meshwright {

// The names that a version of a target has, from data/targets.
struct TargetNames {
  std::string target, version;
  std::set<std::string, std::less<>> names;
};
std::vector<TargetNames> read_target_names(const std::filesystem::path& data);

// Whether some version has the name. Sections without names of their own take any; of Python only
// what is below a section of the target is a name at all.
bool is_known_name(const std::vector<TargetNames>& all, const std::string& target,
                   const ForeignSetting& setting);

}  // namespace meshwright

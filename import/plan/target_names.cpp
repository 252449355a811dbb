#include "import/plan/target_names.h"

#include <algorithm>

#include "costmodel/base/json_input.h"
#include "costmodel/base/presets.h"

namespace meshwright {
namespace {

// "data_stages[0].name" is of the section data_stages.
std::string without_indices(const std::string& key) {
  std::string plain;
  bool inside = false;
  for (const char c : key) {
    if (c == '[') inside = true;
    if (!inside) plain += c;
    if (c == ']') inside = false;
  }
  return plain;
}

bool has_names_below(const TargetNames& target, const std::string& section) {
  const auto next = target.names.lower_bound(section + ".");
  return next != target.names.end() && next->starts_with(section + ".");
}

bool has_name(const TargetNames& target, const std::string& key) {
  if (target.names.contains(key)) return true;
  for (auto dot = key.rfind('.'); dot != key.npos && dot > 0; dot = key.rfind('.', dot - 1)) {
    const std::string section = key.substr(0, dot);
    if (target.names.contains(section)) return !has_names_below(target, section);
  }
  return false;
}

// What a Python file assigns besides is its own.
bool is_own_name(const TargetNames& target, const std::string& key) {
  const std::string first = key.substr(0, key.find('.'));
  return first == key || !has_names_below(target, first);
}

}  // namespace

std::vector<TargetNames> read_target_names(const std::filesystem::path& data) {
  std::vector<TargetNames> all;
  for (const std::string& file : preset_names(data / "targets")) {
    const JsonInput root = JsonInput::read(data / "targets" / (file + ".json"));
    TargetNames names{
        root.required<std::string>("target"), root.required<std::string>("target_version"), {}};
    for (const auto& [name, about] : root.at("names").fields()) names.names.insert(name);
    all.push_back(std::move(names));
  }
  return all;
}

bool is_known_name(const std::vector<TargetNames>& all, const std::string& target,
                   const ForeignSetting& setting) {
  constexpr std::string_view kPlugin = "HybridParallelPlugin.";
  std::string key = without_indices(setting.key);
  const bool plugin = key.find(kPlugin) != key.npos;
  if (key.starts_with(kPlugin)) key.erase(0, kPlugin.size());
  bool any = false;
  for (const TargetNames& names : all) {
    if (names.target != target) continue;
    any = true;
    if (has_name(names, key)) return true;
    const bool python = target == "colossal-ai" || setting.file.ends_with(".py");
    if (python && !plugin && is_own_name(names, key)) return true;
  }
  return !any;
}

}  // namespace meshwright

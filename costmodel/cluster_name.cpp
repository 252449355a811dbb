#include "costmodel/cluster_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <system_error>

#include "costmodel/cluster_file.h"
#include "costmodel/cluster_shape.h"

namespace meshwright {
namespace {

namespace fs = std::filesystem;

// How many letters must be added, removed or replaced to turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

[[noreturn]] void fail_unknown(std::string_view name, const std::vector<std::string>& presets) {
  constexpr std::size_t kTypingMistake = 2;
  std::string hint;
  std::size_t nearest = kTypingMistake + 1;
  // Longer than any preset: not a slip of the finger, and not worth comparing.
  for (const std::string& preset : presets) {
    if (name.size() > preset.size() + kTypingMistake) continue;
    const std::size_t distance = edit_distance(name, preset);
    if (distance >= nearest || distance >= preset.size()) continue;
    nearest = distance;
    hint = fmt::format(" Did you mean {}?", preset);
  }
  throw ClusterNameError(
      fmt::format("unknown cluster \"{}\": neither a file nor a preset.{} The presets are {}.",
                  printable(name), hint, fmt::join(presets, ", ")));
}

Cluster find_unshaped(std::string_view name, const fs::path& data) {
  const auto presets = cluster_presets(data);
  if (std::binary_search(presets.begin(), presets.end(), name)) {
    return read_cluster_file(data / "clusters" / (std::string(name) + ".json"));
  }
  std::error_code unreadable;
  const bool is_file = name.find('/') != name.npos || name.ends_with(".json") ||
                       (!name.empty() && fs::exists(fs::path(name), unreadable));
  if (is_file) return read_cluster_file(name);
  fail_unknown(name, presets);
}

}  // namespace

std::vector<std::string> cluster_presets(const fs::path& data) {
  std::vector<std::string> names;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(data / "clusters", unreadable)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  if (unreadable) {
    throw InputError(fmt::format("{}: cannot be read: {}", printable((data / "clusters").string()),
                                 unreadable.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Cluster find_cluster(std::string_view text, const fs::path& data) {
  const auto colon = text.rfind(':');
  std::error_code unreadable;
  if (colon == text.npos || text.ends_with(".json") || fs::exists(fs::path(text), unreadable)) {
    return find_unshaped(text, data);
  }
  const auto shape = parse_cluster_shape(text.substr(colon + 1));
  if (!shape) {
    throw ClusterNameError(
        fmt::format("\"{}\": expected a shape such as h100:4x8 (4 nodes of 8 devices) or h100:12 "
                    "(12 devices), with numbers from 1 to {}",
                    printable(text), kMostDevices));
  }
  const Cluster base = find_unshaped(text.substr(0, colon), data);
  if (const auto problem = shape_problem(base, *shape)) {
    throw ClusterNameError(fmt::format("\"{}\": {}", printable(text), *problem));
  }
  Cluster cluster = with_shape(base, *shape);
  cluster.name = fmt::format("{}:{}", base.name, text.substr(colon + 1));
  return cluster;
}

}  // namespace meshwright

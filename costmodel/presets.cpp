#include "costmodel/presets.h"

#include <algorithm>
#include <numeric>

namespace meshwright {
namespace {

// Levenshtein distance.
std::size_t edits_between(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> preset_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::filesystem::path> find_preset(const std::filesystem::path& folder,
                                                 const std::string& name) {
  const auto names = preset_names(folder);
  if (!std::binary_search(names.begin(), names.end(), name)) return std::nullopt;
  return folder / (name + ".json");
}

std::string similar_names(const std::string& typed, const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 3;
  const std::size_t limit = std::max<std::size_t>(2, typed.size() / 3);
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& name : names) {
    const std::size_t edits = edits_between(typed.substr(0, 100), name);
    if (edits <= limit) near.emplace_back(edits, name);
  }
  if (near.empty()) return "";
  std::sort(near.begin(), near.end());
  if (near.size() > kMost) near.resize(kMost);
  std::string text = "; did you mean ";
  for (std::size_t i = 0; i < near.size(); ++i) {
    if (i > 0) text += i + 1 == near.size() ? " or " : ", ";
    text += near[i].second;
  }
  return text + "?";
}

}  // namespace meshwright

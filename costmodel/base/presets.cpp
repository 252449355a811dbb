#include "costmodel/base/presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <system_error>

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

}  // namespace

std::string hint_for(std::string_view typed, const std::vector<std::string>& known) {
  constexpr std::size_t kTypingMistake = 2;
  std::string hint;
  std::size_t nearest = kTypingMistake + 1;
  for (const std::string& word : known) {
    // Longer than any word: not a slip of the finger, and not worth comparing.
    if (typed.size() > word.size() + kTypingMistake) continue;
    const std::size_t distance = edit_distance(typed, word);
    if (distance >= nearest || distance >= word.size()) continue;
    nearest = distance;
    hint = fmt::format(" Did you mean {}?", word);
  }
  return hint;
}

std::vector<std::string> preset_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  if (unreadable) {
    throw InputError(
        fmt::format("{}: cannot be read: {}", printable(folder.string()), unreadable.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path find_file(std::string_view typed, const fs::path& folder, std::string_view what) {
  // What can only be a path needs no presets, which may be unreadable.
  if (typed.find('/') != typed.npos || typed.ends_with(".json")) return typed;
  const auto presets = preset_names(folder);
  if (std::binary_search(presets.begin(), presets.end(), typed)) {
    return folder / (std::string(typed) + ".json");
  }
  std::error_code unreadable;
  if (!typed.empty() && fs::exists(fs::path(typed), unreadable)) return typed;
  constexpr std::size_t kMostListed = 30;
  const std::string list = presets.size() > kMostListed
                               ? fmt::format("`meshwright {} --list` shows the presets", what)
                               : fmt::format("The presets are {}", fmt::join(presets, ", "));
  throw NameError(fmt::format("unknown {} \"{}\": neither a file nor a preset.{} {}.", what,
                              printable(typed), hint_for(typed, presets), list));
}

}  // namespace meshwright

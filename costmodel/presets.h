#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace meshwright {

// Names of the .json files of a folder, sorted, without the ending.
std::vector<std::string> preset_names(const std::filesystem::path& folder);

// The file of a preset. None: no preset has that name.
std::optional<std::filesystem::path> find_preset(const std::filesystem::path& folder,
                                                 const std::string& name);

// "; did you mean a, b or c?" for up to three names that are spelled alike, else nothing.
std::string similar_names(const std::string& typed, const std::vector<std::string>& names);

}  // namespace meshwright

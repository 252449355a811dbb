#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "import/plan/imported_plan.h"

namespace meshwright {

// Shipped models that have all the sizes that are said, among them layers and width. Empty: none
// has, or too few are said.
std::vector<std::string> presets_like(const ModelSizes& sizes, const std::filesystem::path& data);

// The shipped model of such a name, in lower case: "llama3-8B". Empty: there is none.
std::vector<std::string> presets_called(const std::string& name, const std::filesystem::path& data);

// What a shipped model's file says.
ModelSizes sizes_of_preset(const std::string& name, const std::filesystem::path& data);

}  // namespace meshwright

#pragma once

#include <filesystem>
#include <vector>

#include "planner/export/export.h"

namespace meshwright {

// Nothing is there, or an empty folder.
bool is_new(const std::filesystem::path& folder);

// A new folder is there whole or not at all; in one that is there already files are replaced one by
// one.
void write_folder(const std::vector<ExportedFile>& files, const std::filesystem::path& folder);

}  // namespace meshwright

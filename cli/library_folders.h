#pragma once

#include <filesystem>
#include <vector>

namespace meshwright {

// Where libraries are that the program loads when it needs them: beside a program of a build
// folder, or where they were installed.
std::vector<std::filesystem::path> library_folders();

}  // namespace meshwright

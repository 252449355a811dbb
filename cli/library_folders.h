#pragma once

#include <filesystem>
#include <vector>

namespace meshwright {

// Where libraries are that the program loads when it needs them: beside a program of a build
// folder, or where they were installed.
std::vector<std::filesystem::path> library_folders();

// Where OR-Tools may be: where MESHWRIGHT_ORTOOLS says, where libraries were installed, or where a
// build folder has it.
std::vector<std::filesystem::path> solver_folders();

}  // namespace meshwright

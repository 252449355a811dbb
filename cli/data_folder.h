#pragma once

#include <filesystem>

namespace meshwright {

// Where the shipped models, clusters and profiles are. An installed program stands beside its data
// (prefix/bin, prefix/share/meshwright); a program in a build folder uses the source tree's.
std::filesystem::path find_data_folder();

}  // namespace meshwright

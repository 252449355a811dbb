#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "costmodel/op_graph.h"

namespace meshwright {

// The graph of what a person typed: a preset of the data folder, a config.json or graph file, or
// a folder that holds a config.json. A name that is none of these is an InputError that lists
// similar presets.
OpGraph read_model(const std::string& typed, const std::filesystem::path& data);

std::vector<std::string> model_presets(const std::filesystem::path& data);

}  // namespace meshwright

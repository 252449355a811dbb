#pragma once

#include <filesystem>
#include <string_view>

#include "costmodel/model/op_graph.h"

namespace meshwright {

// The graph of what a person typed: a preset of the data folder, a config.json or graph file, or
// a folder that holds a config.json. Throws NameError for what names no model and InputError for a
// bad file.
OpGraph read_model(std::string_view typed, const std::filesystem::path& data);

}  // namespace meshwright

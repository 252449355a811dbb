#pragma once

#include <string>

#include "costmodel/base/json_input.h"
#include "costmodel/model/op_graph.h"

namespace meshwright {

// The graph of the class that a config.json names. Of a multimodal file the text model is read
// (its text_config), and a note says so. An unknown family, a missing or a contradictory field is
// an InputError.
OpGraph read_hugging_face(const JsonInput& config, const std::string& name);

}  // namespace meshwright

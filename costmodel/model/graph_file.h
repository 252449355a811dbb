#pragma once

#include <string>

#include "costmodel/base/json_input.h"
#include "costmodel/model/op_graph.h"

namespace meshwright {

// The graph file: a model of any kind, op by op, for tools that have more than a config.json.
// data/README.md describes the format.
bool is_graph_file(const JsonInput& json);
OpGraph read_graph(const JsonInput& json);
std::string graph_text(const OpGraph& graph);

}  // namespace meshwright

#pragma once

#include <string>
#include <vector>

#include "costmodel/model/op_graph.h"

namespace meshwright {

// Which inputs of a graph cannot be loaded, one line each. Data comes in rows of the batch, or in
// one row for all samples, and labels one for each token.
std::vector<std::string> check_inputs(const OpGraph& graph);

}  // namespace meshwright

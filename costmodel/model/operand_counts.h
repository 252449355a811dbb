#pragma once

#include <string>

#include "costmodel/model/op_graph.h"

namespace meshwright {

// Whether an op has as many inputs, weights and outputs as its kind takes: what is wrong, empty if
// nothing is.
std::string operand_count_problem(const GraphOp& op);

}  // namespace meshwright

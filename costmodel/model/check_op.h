#pragma once

#include <string>

#include "costmodel/model/op_graph.h"

namespace meshwright {

// What is wrong with one op of a graph, in words; empty: its operands are those its kind wants, in
// number, element and dimensions, the result is laid out as the op's kernel writes it, and its
// attributes are numbers one can compute with.
std::string problem_of(const OpGraph& graph, const GraphOp& op);

}  // namespace meshwright

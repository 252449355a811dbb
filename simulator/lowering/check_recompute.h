#pragma once

#include <string>
#include <vector>

#include "costmodel/model/op_graph.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// What is wrong with a plan's segments of recomputation, in words. Its chunks must be right.
std::vector<std::string> check_recompute(const Plan& plan, const OpGraph& graph);

}  // namespace meshwright

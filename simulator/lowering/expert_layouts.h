#pragma once

#include "simulator/lowering/planned_graph.h"

namespace meshwright {

// Finds the rows that are sorted by experts, from each dispatch to its combine: what of them is a
// partial sum stays one until it is combined. What speaks against it goes to the graph's problems.
// Its tensors must know their producers and readers, and are not laid out yet.
void route_rows(PlannedGraph& planned, const Plan& plan);

}  // namespace meshwright

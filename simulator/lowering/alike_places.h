#pragma once

#include <cstdint>
#include <vector>

#include "simulator/lowering/planned_graph.h"

namespace meshwright {

// By slot and place among its devices: a number that is the same for places whose programs differ
// only in the devices they name and in where the parts they work on lie, so that the tasks are as
// many and as large. Places of different slots never have the same number, and those of one slot
// need not even where their programs are alike.
std::vector<std::vector<std::uint32_t>> alike_places(const PlannedGraph& planned, const Plan& plan);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/model/model.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// By slot and place among its devices: a number that is the same for places whose programs differ
// only in the devices they name and in where the parts they work on lie, so that the tasks are as
// many and as large. Places of different slots never have the same number, and those of one slot
// need not even where their programs are alike.
std::vector<std::vector<std::uint32_t>> alike_places(const Model& model, const Plan& plan);

// Coordinates of place `index` of a slot along its axes.
std::vector<std::int64_t> coordinates_of(const Slot& slot, std::size_t index);

}  // namespace meshwright

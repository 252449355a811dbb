#pragma once

#include <map>
#include <span>

#include "costmodel/price/cost_model.h"
#include "simulator/program/program.h"

namespace meshwright {

// Of the time that all tasks of the programs take alone, the share that has each origin.
std::map<PriceOrigin, double> price_origins(std::span<const Program> programs,
                                            const CostModel& costs);

}  // namespace meshwright

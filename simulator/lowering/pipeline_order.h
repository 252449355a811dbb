#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/plan.h"

namespace meshwright {

// One forward, one backward: a stage starts with as many forwards as there are stages after it,
// then alternates. GPipe: all forwards, then all backwards.
std::vector<std::vector<OrderEntry>> one_forward_one_backward(std::int64_t stages,
                                                              std::int64_t microbatches);
std::vector<std::vector<OrderEntry>> gpipe(std::int64_t stages, std::int64_t microbatches);

// When each entry of each slot starts if every entry takes one unit of time and transfers none.
// The chunks' order is that of the forward. None: the orders wait for each other in a circle, or
// an entry needs one that is nowhere.
std::optional<std::vector<std::vector<std::int64_t>>> unit_times(const Plan& plan);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <vector>

#include "simulator/program/program.h"

namespace meshwright {

// The same programs in another order in which they could run: lanes in their order, waits kept,
// collectives at once on all members. Drawn by seed.
std::vector<Program> in_any_order(const std::vector<Program>& programs, std::uint32_t seed);

}  // namespace meshwright

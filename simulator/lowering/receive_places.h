#pragma once

#include <cstdint>
#include <vector>

#include "simulator/lowering/pipeline_order.h"

namespace meshwright {

// What an entry of a slot's order receives from one chunk of another slot.
struct Reception {
  std::size_t entry = 0;  // that reads it
  std::size_t chunk = 0;  // that sends it
  friend bool operator==(const Reception&, const Reception&) = default;
};

// Before which entry of a slot's order each reception stands, and in which order: two devices match
// what they send and receive by order, but a slot with several chunks may read in another order
// than its neighbour sends. Each stands as late as it can: before its reader, or before an earlier
// entry that reads what was sent later. No reception stands before its send in the one order of
// all tasks, since that reader starts after a later send.
std::vector<std::vector<Reception>> place_receptions(const Plan& plan, const UnitTimes& times,
                                                     std::size_t slot,
                                                     const std::vector<Reception>& receptions);

}  // namespace meshwright

#pragma once

#include <cassert>
#include <utility>
#include <vector>

#include "costmodel/kernel/kernel.h"

namespace meshwright {

// The place of a contiguous shard of these sizes: of each dimension where it starts, and the size
// of the whole.
inline std::vector<DimPlace> contiguous_place(
    const Extents& sizes, const std::vector<std::pair<std::int64_t, std::int64_t>>& starts) {
  assert(sizes.size() == starts.size());
  std::vector<DimPlace> place;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    place.push_back({{{starts[d].first, sizes[d]}}, starts[d].second});
  }
  return place;
}

}  // namespace meshwright

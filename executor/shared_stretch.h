#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "costmodel/kernel/shard_range.h"

namespace meshwright {

// A stretch of a source's dimension, and the one of a target's dimension that it becomes.
struct SharedStretch {
  std::int64_t from = 0, to = 0;
  std::int64_t size = 0;
};

// Ranges side by side with others of the same size in all.
inline std::vector<SharedStretch> stretches(const std::vector<ShardRange>& from,
                                            const std::vector<ShardRange>& to) {
  std::vector<SharedStretch> found;
  std::size_t a = 0, b = 0;
  std::int64_t in_a = 0, in_b = 0;
  while (a < from.size() && b < to.size()) {
    const std::int64_t size = std::min(from[a].size - in_a, to[b].size - in_b);
    if (size > 0) found.push_back({from[a].start + in_a, to[b].start + in_b, size});
    in_a += size;
    in_b += size;
    if (in_a == from[a].size) ++a, in_a = 0;
    if (in_b == to[b].size) ++b, in_b = 0;
  }
  return found;
}

inline std::vector<ShardRange> whole_of(const std::vector<ShardRange>& ranges) {
  return {{0, size_of(ranges)}};
}

}  // namespace meshwright

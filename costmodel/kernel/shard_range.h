#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace meshwright {

// Consecutive places of one dimension.
struct ShardRange {
  std::int64_t start = 0;
  std::int64_t size = 0;
  friend auto operator<=>(const ShardRange&, const ShardRange&) = default;
};

inline std::int64_t size_of(const std::vector<ShardRange>& ranges) {
  std::int64_t size = 0;
  for (const ShardRange& range : ranges) size += range.size;
  return size;
}

}  // namespace meshwright

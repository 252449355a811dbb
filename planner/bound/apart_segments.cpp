#include "planner/bound/apart_segments.h"

#include <algorithm>
#include <limits>

#include "simulator/engine/allocator_model.h"

namespace meshwright {
namespace {

// Segments are multiples of a unit, so what is larger than one by less may have room in there.
std::int64_t segment_for(Bytes size) {
  constexpr std::int64_t kUnit = CachingAllocator::kSegmentRounding;
  return (size.value() + kUnit - 1) / kUnit * kUnit;
}

// The most that is there at once of buffers in segments of more than `above` and up to `most`,
// before the first that needs a larger one: all in segments of these sizes, for there are no
// others.
Bytes most_at_once(const std::vector<ListedBuffer>& buffers, std::int64_t above,
                   std::int64_t most) {
  std::uint32_t end = std::numeric_limits<std::uint32_t>::max();
  for (const ListedBuffer& buffer : buffers) {
    if (segment_for(buffer.size) > most) end = std::min(end, buffer.first);
  }
  Bytes largest;
  for (const ListedBuffer& at : buffers) {
    if (at.first >= end) continue;
    Bytes there;
    for (const ListedBuffer& buffer : buffers) {
      const std::int64_t segment = segment_for(buffer.size);
      const bool counts = above < segment && segment <= most;
      if (counts && buffer.first <= at.first && at.first <= buffer.last) there += buffer.size;
    }
    largest = std::max(largest, there);
  }
  return largest;
}

}  // namespace

// Segments are never given back, so what is reserved for each range of sizes adds up. The best
// ranges are found from the smallest size to the largest.
Bytes apart_segments(const std::vector<ListedBuffer>& buffers, Bytes above) {
  std::vector<std::int64_t> sizes = {std::max(segment_for(above), CachingAllocator::kLargeSegment)};
  for (const ListedBuffer& buffer : buffers) {
    if (segment_for(buffer.size) > sizes.front()) sizes.push_back(segment_for(buffer.size));
  }
  std::ranges::sort(sizes);
  const auto same = std::ranges::unique(sizes);
  sizes.erase(same.begin(), same.end());
  std::vector<Bytes> reserved(sizes.size());  // up to each size
  for (std::size_t to = 1; to < sizes.size(); ++to) {
    for (std::size_t from = 0; from < to; ++from) {
      reserved[to] =
          std::max(reserved[to], reserved[from] + most_at_once(buffers, sizes[from], sizes[to]));
    }
  }
  return reserved.back();
}

}  // namespace meshwright

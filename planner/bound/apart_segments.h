#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/base/units.h"

namespace meshwright {

// A buffer that is there from one task of a list to another.
struct ListedBuffer {
  Bytes size;
  std::uint32_t first = 0, last = 0;
};

// What a caching allocator (simulator/engine/allocator_model.h) reserves at least for those of the
// buffers that are larger than `above`, in segments that have room for one of these: whatever is
// smaller may be in there as well, but what was reserved for smaller ones is of no use to them.
Bytes apart_segments(const std::vector<ListedBuffer>& buffers, Bytes above);

}  // namespace meshwright

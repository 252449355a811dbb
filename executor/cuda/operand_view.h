#pragma once

#include <cstdint>
#include <type_traits>

#include "executor/host_device.h"
#include "executor/kernel_call.h"

// Operands as kernels take them: values that a launch can carry, without memory of the host's.
namespace meshwright::work {

template <class Stored>
using RealOf = std::conditional_t<std::is_same_v<Stored, double>, double, float>;

// Offsets of the places of some dimensions in row-major order, as Places has them.
struct Walk {
  static constexpr std::size_t kMostDims = 6;
  std::int64_t sizes[kMostDims] = {1}, strides[kMostDims] = {0};
  std::int32_t dims = 1;

  MESHWRIGHT_HD std::int64_t operator()(std::int64_t place) const {
    if (dims == 1) return place * strides[0];
    std::int64_t offset = 0;
    for (std::int32_t d = dims; d-- > 1;) {
      offset += place % sizes[d] * strides[d];
      place /= sizes[d];
    }
    return offset + place * strides[0];
  }
};

// Dimensions that follow each other without a gap are one.
inline Walk walk_of(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
  Walk walk;
  std::size_t dims = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (dims > 0 && walk.strides[dims - 1] == strides[i] * sizes[i]) {
      walk.sizes[dims - 1] *= sizes[i];
      walk.strides[dims - 1] = strides[i];
    } else if (sizes[i] != 1) {
      assert(dims < Walk::kMostDims);
      walk.sizes[dims] = sizes[i];
      walk.strides[dims++] = strides[i];
    }
  }
  walk.dims = static_cast<std::int32_t>(dims == 0 ? 1 : dims);
  return walk;
}

// Element i of an operand.
template <class Stored>
struct ElementsOf {
  Stored* data = nullptr;
  Walk walk;
  MESHWRIGHT_HD explicit operator bool() const { return data != nullptr; }
  MESHWRIGHT_HD Stored& operator[](std::int64_t i) const { return data[walk(i)]; }
};

// Row r of an operand, whose columns lie side by side.
template <class Stored>
struct RowsOf {
  Stored* data = nullptr;
  Walk walk;
  MESHWRIGHT_HD explicit operator bool() const { return data != nullptr; }
  MESHWRIGHT_HD Stored* operator[](std::int64_t row) const { return data + walk(row); }
};

template <class Stored>
MESHWRIGHT_HD inline auto load(const Stored* from, std::int64_t i) {
  return static_cast<RealOf<std::remove_const_t<Stored>>>(from[i]);
}
template <class Stored>
MESHWRIGHT_HD inline auto load(const ElementsOf<Stored>& from, std::int64_t i) {
  return static_cast<RealOf<std::remove_const_t<Stored>>>(from[i]);
}
template <class Stored>
MESHWRIGHT_HD inline void store(Stored* to, std::int64_t i, RealOf<Stored> value) {
  to[i] = static_cast<Stored>(value);
}
template <class Stored>
MESHWRIGHT_HD inline void store(const ElementsOf<Stored>& to, std::int64_t i,
                                RealOf<Stored> value) {
  to[i] = static_cast<Stored>(value);
}

// Where the places of a shard stand along a dimension of its tensor.
struct PlaceRanges {
  static constexpr std::size_t kMostRanges = 4;
  std::int64_t starts[kMostRanges] = {0}, sizes[kMostRanges] = {0};
  std::int32_t ranges = 0;
  std::int64_t whole = 0;

  MESHWRIGHT_HD std::int64_t operator[](std::int64_t place) const {
    std::int32_t r = 0;
    for (; r + 1 < ranges && place >= sizes[r]; ++r) place -= sizes[r];
    return starts[r] + place;
  }
};

// False: in more pieces than a launch carries.
inline bool fits(const DimPlace& dim) { return dim.ranges.size() <= PlaceRanges::kMostRanges; }

inline PlaceRanges ranges_of(const DimPlace& dim) {
  PlaceRanges ranges;
  ranges.whole = dim.size;
  for (const ShardRange& range : dim.ranges) {
    ranges.starts[ranges.ranges] = range.start;
    ranges.sizes[ranges.ranges++] = range.size;
  }
  return ranges;
}

// The place of a shard's element in the whole tensor, in row-major order.
struct GlobalPlaces {
  std::int64_t sizes[Walk::kMostDims] = {1};  // of the shard
  PlaceRanges places[Walk::kMostDims];
  std::int32_t dims = 0;

  MESHWRIGHT_HD std::uint64_t operator[](std::int64_t i) const {
    std::uint64_t index = 0, stride = 1;
    for (std::int32_t d = dims; d-- > 0;) {
      index += stride * static_cast<std::uint64_t>(places[d][i % sizes[d]]);
      stride *= static_cast<std::uint64_t>(places[d].whole);
      i /= sizes[d];
    }
    return index;
  }
};

}  // namespace meshwright::work

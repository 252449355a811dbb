#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/ids.h"
#include "costmodel/kernel/shard_range.h"
#include "costmodel/model/op.h"
#include "simulator/layout/mesh.h"

namespace meshwright {

// Zigzag: the dimension is folded in the middle and both halves are cut, the second one backwards,
// so that under a causal mask every shard has the same work.
enum class ShardOrder { Contiguous, Zigzag };

// How one dimension is cut: by the first axis, then what is left by the next, and so on. Each cut
// is as even as it can be, earlier parts taking what is left over: 10 over 4 is 3, 3, 2, 2 and 10
// over 2, then 2, is 3, 2, 3, 2. Cutting axis by axis makes a shard over fewer axes the union of
// shards over more, which is what gathers and slices rely on.
struct Sharding {
  std::vector<AxisId> axes;                   // major to minor
  ShardOrder order = ShardOrder::Contiguous;  // of an uncut dimension: always contiguous
  friend auto operator<=>(const Sharding&, const Sharding&) = default;
};

struct DimLayout {
  DimId dim;
  Sharding sharding = {};
  friend auto operator<=>(const DimLayout&, const DimLayout&) = default;
};

// How the values of members combine to the tensor's. LogSumExp: log(sum(exp(value))).
enum class PendingReduction { Sum, Max, LogSumExp };

struct Partial {
  std::vector<AxisId> axes;  // ascending, at least one
  PendingReduction reduction = PendingReduction::Sum;
  friend auto operator<=>(const Partial&, const Partial&) = default;
};

// Which part of a tensor each device of a mesh holds. Along axes that are not named, all hold the
// same. An axis is named at most once.
struct Layout {
  std::vector<DimLayout> dims;  // those of the tensor, in its order
  std::optional<Partial> partial = {};
  friend auto operator<=>(const Layout&, const Layout&) = default;
};

Layout replicated(const std::vector<DimId>& dims);
// None: the layout keeps to what its types promise.
std::optional<std::string> fault_of(const Layout& layout, const Mesh& mesh);
// Where a dimension stands in the layout; the number of dimensions where it does not.
std::size_t position_of(const Layout& layout, DimId dim);
// Every axis the layout names, ascending.
std::vector<AxisId> axes_of(const Layout& layout);
// The same placement without axes of one device.
Layout without_trivial_axes(const Layout& layout, const Mesh& mesh);

// Part `index` of `parts` of a range: the first ones get one more where it does not divide.
ShardRange part_of(const ShardRange& range, std::int64_t parts, std::int64_t index);

// What a device holds of a dimension of `size` places: ascending, none of them empty; two ranges
// where the order is zigzag.
std::vector<ShardRange> shard_of(const Sharding& sharding, const Mesh& mesh, std::int64_t size,
                                 DeviceId device);
// The same for a device at these coordinates, one for every axis.
std::vector<ShardRange> shard_at(const Sharding& sharding, const Mesh& mesh, std::int64_t size,
                                 const std::vector<std::int64_t>& coordinates);
// The same for each dimension of a tensor of these sizes.
std::vector<std::vector<ShardRange>> shard_of(const Layout& layout, const Mesh& mesh,
                                              const std::vector<std::int64_t>& sizes,
                                              DeviceId device);

// Places, or elements, of the device that holds most.
std::int64_t largest_shard(const Sharding& sharding, const Mesh& mesh, std::int64_t size);
std::int64_t largest_shard(const Layout& layout, const Mesh& mesh,
                           const std::vector<std::int64_t>& sizes);

// "[batch/dp, sequence/cp~, hidden] sum over tp"; ~ marks zigzag.
std::string layout_text(const Layout& layout, const Mesh& mesh, const std::vector<Dim>& dims);

}  // namespace meshwright

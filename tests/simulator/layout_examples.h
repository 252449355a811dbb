#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/price/cost_model.h"
#include "simulator/layout/layout.h"

namespace meshwright {

// Axes a, b, c, ... of these sizes over devices 0, 1, 2, ...
inline Mesh mesh_of(const std::vector<std::int64_t>& sizes) {
  std::vector<MeshAxis> axes;
  std::size_t count = 1;
  for (const std::int64_t size : sizes) {
    axes.push_back({std::string(1, static_cast<char>('a' + axes.size())), size});
    count *= static_cast<std::size_t>(size);
  }
  std::vector<DeviceId> devices;
  for (std::size_t i = 0; i < count; ++i) devices.emplace_back(i);
  return Mesh(std::move(axes), std::move(devices));
}

inline const AxisId a(0), b(1), c(2);

// A layout of dimensions 0, 1, ..., each cut by the axes given.
inline Layout cut(const std::vector<std::vector<AxisId>>& axes) {
  Layout layout;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    layout.dims.push_back({.dim = DimId(i), .sharding = {.axes = axes[i]}});
  }
  return layout;
}

inline Layout partial(Layout layout, std::vector<AxisId> axes,
                      PendingReduction reduction = PendingReduction::Sum) {
  layout.partial = Partial{std::move(axes), reduction};
  return layout;
}

inline Layout zigzag(Layout layout, std::size_t dim) {
  layout.dims[dim].sharding.order = ShardOrder::Zigzag;
  return layout;
}

// From `first` up to but without `end`. Equally likely from the first case on: plain inRange starts
// with the smallest, and most meshes would be the same.
template <class Number>
rc::Gen<Number> between(Number first, Number end) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<Number>(first, end));
}

// Two or three axes of up to 4 devices in a random arrangement.
inline Mesh random_mesh(std::int64_t smallest_axis = 1) {
  const auto sizes = *rc::gen::container<std::vector<std::int64_t>>(
      *between<std::size_t>(2, 4), between<std::int64_t>(smallest_axis, 5));
  const Mesh mesh = mesh_of(sizes);
  std::vector<DeviceId> devices = mesh.devices();
  for (std::size_t i = devices.size(); i > 1; --i) {
    std::swap(devices[i - 1], devices[*between<std::size_t>(0, i)]);
  }
  return Mesh(mesh.axes(), devices);
}

// Each axis, in a random order, cuts one of the dimensions, or is partial, or replicates.
inline Layout random_layout(const Mesh& mesh, std::size_t dims, bool may_be_partial) {
  Layout layout = cut(std::vector<std::vector<AxisId>>(dims));
  std::vector<AxisId> pending;
  std::vector<AxisId> axes;
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
    const auto place = *between<std::size_t>(0, axes.size() + 1);
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(place), AxisId(i));
  }
  for (const AxisId axis : axes) {
    const auto use = *between<std::size_t>(0, dims + (may_be_partial ? 2 : 1));
    if (use < dims) layout.dims[use].sharding.axes.push_back(axis);
    if (use == dims + 1) pending.push_back(axis);
  }
  for (DimLayout& dim : layout.dims) {
    const bool is_zigzag = *between(0, 4) == 0;
    if (is_zigzag && !dim.sharding.axes.empty()) dim.sharding.order = ShardOrder::Zigzag;
  }
  if (!pending.empty()) {
    std::sort(pending.begin(), pending.end());
    const bool largest = *between(0, 2) == 1;
    layout = partial(layout, pending, largest ? PendingReduction::Max : PendingReduction::Sum);
  }
  return layout;
}

inline std::vector<std::int64_t> random_sizes(std::size_t dims) {
  return *rc::gen::container<std::vector<std::int64_t>>(dims, between<std::int64_t>(1, 10));
}

// A fixed time for each transfer, and for each byte a member sends.
class AlphaBeta : public CostModel {
 public:
  AlphaBeta(Seconds each, BytesPerSecond rate) : each_(each), rate_(rate) {}
  Price kernel(const Kernel&, Precision, DeviceId) const override { return {}; }
  Price transfer(const Transfer& transfer, Precision precision) const override {
    return {each_ + Seconds(bytes_sent(transfer, precision) / rate_.value())};
  }

 private:
  Seconds each_;
  BytesPerSecond rate_;
};

}  // namespace meshwright

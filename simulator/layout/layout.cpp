#include "simulator/layout/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <set>
#include <string_view>

#include "costmodel/base/checked.h"

namespace meshwright {
namespace {

// A contiguous shard is all `low`. A zigzag one lies mirrored in both halves of the dimension.
struct Fold {
  ShardRange low, high;
  friend auto operator<=>(const Fold&, const Fold&) = default;
};

Fold whole(std::int64_t size, ShardOrder order) {
  const std::int64_t low = order == ShardOrder::Zigzag ? size - size / 2 : size;
  return {{0, low}, {low, size - low}};
}

Fold part(const Fold& fold, std::int64_t parts, std::int64_t index) {
  return {part_of(fold.low, parts, index), part_of(fold.high, parts, parts - 1 - index)};
}

std::string_view to_text(PendingReduction reduction) {
  switch (reduction) {
    case PendingReduction::Sum:
      return "sum";
    case PendingReduction::Max:
      return "max";
    case PendingReduction::LogSumExp:
      return "log-sum-exp";
  }
  return "";
}

std::string axes_text(const std::vector<AxisId>& axes, const Mesh& mesh) {
  std::string text;
  for (const AxisId axis : axes) text += (text.empty() ? "" : ".") + mesh.axis(axis).name;
  return text;
}

// In the order of the layout, with repetitions.
std::vector<AxisId> named_axes(const Layout& layout) {
  std::vector<AxisId> axes;
  for (const DimLayout& dim : layout.dims) {
    axes.insert(axes.end(), dim.sharding.axes.begin(), dim.sharding.axes.end());
  }
  if (layout.partial) {
    axes.insert(axes.end(), layout.partial->axes.begin(), layout.partial->axes.end());
  }
  return axes;
}

}  // namespace

ShardRange part_of(const ShardRange& range, std::int64_t parts, std::int64_t index) {
  const std::int64_t each = range.size / parts;
  const std::int64_t left_over = range.size % parts;
  return {range.start + index * each + std::min(index, left_over),
          each + (index < left_over ? 1 : 0)};
}

Layout replicated(const std::vector<DimId>& dims) {
  Layout layout;
  for (const DimId dim : dims) layout.dims.push_back({.dim = dim});
  return layout;
}

std::optional<std::string> fault_of(const Layout& layout, const Mesh& mesh) {
  std::set<AxisId> seen;
  for (const AxisId axis : named_axes(layout)) {
    if (axis.index() >= mesh.axes().size()) return "names an axis that the mesh does not have";
    if (!seen.insert(axis).second) {
      return fmt::format("names axis {} twice", mesh.axis(axis).name);
    }
  }
  for (const DimLayout& dim : layout.dims) {
    if (dim.sharding.axes.empty() && dim.sharding.order != ShardOrder::Contiguous) {
      return "gives an order to a dimension that is not cut";
    }
  }
  if (layout.partial && layout.partial->axes.empty()) return "is partial over no axis";
  if (layout.partial && !std::ranges::is_sorted(layout.partial->axes)) {
    return "lists the axes it is partial over out of order";
  }
  return std::nullopt;
}

std::size_t position_of(const Layout& layout, DimId dim) {
  const auto found = std::ranges::find(layout.dims, dim, &DimLayout::dim);
  return static_cast<std::size_t>(found - layout.dims.begin());
}

std::vector<AxisId> axes_of(const Layout& layout) {
  std::vector<AxisId> axes = named_axes(layout);
  std::ranges::sort(axes);
  return axes;
}

Layout without_trivial_axes(const Layout& layout, const Mesh& mesh) {
  const auto trivial = [&](const AxisId axis) { return mesh.size(axis) == 1; };
  Layout rest = layout;
  for (DimLayout& dim : rest.dims) {
    std::erase_if(dim.sharding.axes, trivial);
    if (dim.sharding.axes.empty()) dim.sharding = {};
  }
  if (rest.partial) {
    std::erase_if(rest.partial->axes, trivial);
    if (rest.partial->axes.empty()) rest.partial.reset();
  }
  return rest;
}

std::vector<ShardRange> shard_of(const Sharding& sharding, const Mesh& mesh, std::int64_t size,
                                 DeviceId device) {
  return shard_at(sharding, mesh, size, mesh.coordinates_at(*mesh.find(device)));
}

std::vector<ShardRange> shard_at(const Sharding& sharding, const Mesh& mesh, std::int64_t size,
                                 const std::vector<std::int64_t>& coordinates) {
  Fold fold = whole(size, sharding.order);
  for (const AxisId axis : sharding.axes) {
    fold = part(fold, mesh.size(axis), coordinates[axis.index()]);
  }
  std::vector<ShardRange> ranges;
  if (fold.low.size > 0) ranges.push_back(fold.low);
  if (fold.high.size > 0) ranges.push_back(fold.high);
  return ranges;
}

std::vector<std::vector<ShardRange>> shard_of(const Layout& layout, const Mesh& mesh,
                                              const std::vector<std::int64_t>& sizes,
                                              DeviceId device) {
  assert(layout.dims.size() == sizes.size());
  std::vector<std::vector<ShardRange>> shards;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    shards.push_back(shard_of(layout.dims[i].sharding, mesh, sizes[i], device));
  }
  return shards;
}

std::int64_t largest_shard(const Sharding& sharding, const Mesh& mesh, std::int64_t size) {
  // Where shards start does not matter for their sizes, and few different sizes arise: a set of
  // them takes the place of a walk over all devices.
  std::set<Fold> folds = {whole(size, sharding.order)};
  for (const AxisId axis : sharding.axes) {
    std::set<Fold> smaller;
    for (const Fold& fold : folds) {
      for (std::int64_t i = 0; i < mesh.size(axis); ++i) {
        const Fold cut = part(fold, mesh.size(axis), i);
        smaller.insert(Fold{.low = {0, cut.low.size}, .high = {0, cut.high.size}});
      }
    }
    folds = std::move(smaller);
  }
  std::int64_t largest = 0;
  for (const Fold& fold : folds) largest = std::max(largest, fold.low.size + fold.high.size);
  return largest;
}

std::int64_t largest_shard(const Layout& layout, const Mesh& mesh,
                           const std::vector<std::int64_t>& sizes) {
  assert(layout.dims.size() == sizes.size());
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    elements = checked_multiply(elements, largest_shard(layout.dims[i].sharding, mesh, sizes[i]));
  }
  return elements;
}

std::string layout_text(const Layout& layout, const Mesh& mesh, const std::vector<Dim>& dims) {
  std::string text;
  for (const DimLayout& dim : layout.dims) {
    text += (text.empty() ? "" : ", ") + dims[dim.dim.index()].name;
    if (dim.sharding.axes.empty()) continue;
    text += "/" + axes_text(dim.sharding.axes, mesh);
    if (dim.sharding.order == ShardOrder::Zigzag) text += "~";
  }
  text = "[" + text + "]";
  if (!layout.partial) return text;
  return fmt::format("{} {} over {}", text, to_text(layout.partial->reduction),
                     axes_text(layout.partial->axes, mesh));
}

}  // namespace meshwright

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/price/cost_model.h"
#include "simulator/layout/layout.h"

namespace meshwright {

// One way to change a layout. Steps over several axes are one collective over the joint group.
enum class RelayoutKind {
  Slice,          // each device keeps a part of what it has: `to` is cut by one more axis
  AllGather,      // the last axes of `from` no longer cut it
  AllToAll,       // the last axes of `from` become the last of `to`
  ReduceScatter,  // partial over the axes before, `to` cut by them after
  AllReduce,      // partial over the axes before, replicated after
};
std::string_view to_text(RelayoutKind kind);
// The collective of any kind but a slice.
TransferKind transfer_kind(RelayoutKind kind);

struct RelayoutStep {
  RelayoutKind kind = RelayoutKind::Slice;
  std::vector<AxisId> axes;                   // major to minor, as the group is ordered
  std::optional<DimId> from;                  // the dimension that is gathered or moved from
  std::optional<DimId> to;                    // the dimension that is cut more after the step
  ShardOrder order = ShardOrder::Contiguous;  // of the cuts of `to`
  friend auto operator<=>(const RelayoutStep&, const RelayoutStep&) = default;
};
using RelayoutSteps = std::vector<RelayoutStep>;

// The layout that a step leads to. None: it cannot be taken from `before`.
std::optional<Layout> layout_after(const RelayoutStep& step, const Layout& before);
std::optional<Layout> layout_after(const RelayoutSteps& steps, Layout before);
// The layout that steps lead from, gathers all. None: there are other steps, or no such layout.
std::optional<Layout> layout_before(const RelayoutSteps& gathers, Layout after);

// "reduce_scatter tp sequence": kind, axes, the dimensions gathered from and cut after; "sequence~"
// where the cuts are zigzag.
std::string step_text(const RelayoutStep& step, const Mesh& mesh, const std::vector<Dim>& dims);
// None: not a step over these axes and dimensions.
std::optional<RelayoutStep> parse_step(std::string_view text, const Mesh& mesh,
                                       const std::vector<Dim>& dims);

// What steps may cut with.
struct StepChoices {
  std::vector<AxisId> axes;
  std::vector<ShardOrder> orders;
  std::vector<DimId> uncut = {};  // dimensions that they leave as they are
};

// Every step that leads from `layout` to a layout that uses only these choices.
std::vector<RelayoutStep> steps_from(const Layout& layout, const StepChoices& choices);

// A tensor as transfers see it.
struct MovedTensor {
  std::vector<std::int64_t> sizes;  // of the whole tensor
  BufferElement element = BufferElement::Real;
  Precision precision = Precision::FP32;
};

// The transfers of `step`, taken from the layout `before`, that `device` takes part in, in order.
// Transfers have equal parts, so that shards are padded to the largest: a gather counts its padded
// result, a reduce-scatter its padded operand, an all-to-all what one member holds. None for a
// slice. A pending log-sum-exp takes two: the largest values, then sums scaled by them.
std::vector<Transfer> transfers_of(const RelayoutStep& step, const Layout& before, const Mesh& mesh,
                                   const MovedTensor& tensor, DeviceId device);

}  // namespace meshwright

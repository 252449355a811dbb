#include "simulator/layout/relayout_step.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "costmodel/base/checked.h"

namespace meshwright {
namespace {

using Axes = std::vector<AxisId>;

Axes last_axes(const Layout& layout, std::size_t dim, std::size_t count) {
  const Axes& axes = layout.dims[dim].sharding.axes;
  return {axes.end() - static_cast<std::ptrdiff_t>(count), axes.end()};
}

Layout without_last(Layout layout, std::size_t dim, std::size_t count) {
  Sharding& sharding = layout.dims[dim].sharding;
  sharding.axes.resize(sharding.axes.size() - count);
  if (sharding.axes.empty()) sharding.order = ShardOrder::Contiguous;
  return layout;
}

Layout without_partial(Layout layout, const Axes& axes) {
  std::erase_if(layout.partial->axes, [&](AxisId axis) { return std::ranges::count(axes, axis); });
  if (layout.partial->axes.empty()) layout.partial.reset();
  return layout;
}

// `step` with `to` cut by its axes: as the dimension is cut already, or in any order if it is not.
void add_cuts(std::vector<RelayoutStep>& steps, RelayoutStep step, std::size_t to,
              const StepChoices& choices) {
  step.to = to;
  Sharding& sharding = step.result.dims[to].sharding;
  const bool uncut = sharding.axes.empty();
  sharding.axes.insert(sharding.axes.end(), step.axes.begin(), step.axes.end());
  if (!uncut) {
    steps.push_back(std::move(step));
    return;
  }
  for (const ShardOrder order : choices.orders) {
    sharding.order = order;
    steps.push_back(step);
  }
}

void add_slices(std::vector<RelayoutStep>& steps, const Layout& layout,
                const StepChoices& choices) {
  const Axes used = axes_of(layout);
  for (const AxisId axis : choices.axes) {
    if (std::ranges::count(used, axis) > 0) continue;
    const RelayoutStep slice{.kind = RelayoutKind::Slice, .axes = {axis}, .result = layout};
    for (std::size_t to = 0; to < layout.dims.size(); ++to) add_cuts(steps, slice, to, choices);
  }
}

void add_gathers_and_moves(std::vector<RelayoutStep>& steps, const Layout& layout,
                           const StepChoices& choices) {
  for (std::size_t from = 0; from < layout.dims.size(); ++from) {
    for (std::size_t count = 1; count <= layout.dims[from].sharding.axes.size(); ++count) {
      RelayoutStep step{.kind = RelayoutKind::AllGather,
                        .axes = last_axes(layout, from, count),
                        .from = from,
                        .result = without_last(layout, from, count)};
      steps.push_back(step);
      step.kind = RelayoutKind::AllToAll;
      for (std::size_t to = 0; to < layout.dims.size(); ++to) {
        if (to != from) add_cuts(steps, step, to, choices);
      }
    }
  }
}

// Every ordered choice of some of `axes`.
void add_arrangements(std::vector<Axes>& all, const Axes& axes, const Axes& chosen) {
  for (const AxisId axis : axes) {
    if (std::ranges::count(chosen, axis) > 0) continue;
    Axes longer = chosen;
    longer.push_back(axis);
    all.push_back(longer);
    add_arrangements(all, axes, longer);
  }
}

void add_reductions(std::vector<RelayoutStep>& steps, const Layout& layout,
                    const StepChoices& choices) {
  if (!layout.partial) return;
  std::vector<Axes> arrangements;
  add_arrangements(arrangements, layout.partial->axes, {});
  for (const Axes& axes : arrangements) {
    RelayoutStep step{
        .kind = RelayoutKind::AllReduce, .axes = axes, .result = without_partial(layout, axes)};
    // The order of the group decides who gets which part, and an all-reduce has no parts.
    if (std::ranges::is_sorted(axes)) steps.push_back(step);
    step.kind = RelayoutKind::ReduceScatter;
    for (std::size_t to = 0; to < layout.dims.size(); ++to) add_cuts(steps, step, to, choices);
  }
}

// The smallest pieces that the step deals with: cut as before and as after it.
std::int64_t piece_elements(const RelayoutStep& step, const Layout& before, const Mesh& mesh,
                            const MovedTensor& tensor) {
  Layout pieces = before;
  if (step.to) pieces.dims[*step.to] = step.result.dims[*step.to];
  return largest_shard(pieces, mesh, tensor.sizes);
}

TransferKind transfer_kind(RelayoutKind kind) {
  switch (kind) {
    case RelayoutKind::Slice:
      break;
    case RelayoutKind::AllGather:
      return TransferKind::AllGather;
    case RelayoutKind::AllToAll:
      return TransferKind::AllToAll;
    case RelayoutKind::ReduceScatter:
      return TransferKind::ReduceScatter;
    case RelayoutKind::AllReduce:
      return TransferKind::AllReduce;
  }
  assert(false);
  return TransferKind::AllReduce;
}

bool reduces(RelayoutKind kind) {
  return kind == RelayoutKind::ReduceScatter || kind == RelayoutKind::AllReduce;
}

}  // namespace

std::string_view to_text(RelayoutKind kind) {
  return kind == RelayoutKind::Slice ? "slice" : to_text(transfer_kind(kind));
}

std::vector<RelayoutStep> steps_from(const Layout& layout, const StepChoices& choices) {
  std::vector<RelayoutStep> steps;
  add_slices(steps, layout, choices);
  add_gathers_and_moves(steps, layout, choices);
  add_reductions(steps, layout, choices);
  return steps;
}

std::vector<Transfer> transfers_of(const RelayoutStep& step, const Layout& before, const Mesh& mesh,
                                   const MovedTensor& tensor, DeviceId device) {
  if (step.kind == RelayoutKind::Slice) return {};
  const std::int64_t piece = piece_elements(step, before, mesh, tensor);
  const Operand part = dense_operand({piece}, tensor.element);
  const Operand whole =
      step.kind == RelayoutKind::AllReduce
          ? part
          : dense_operand({checked_multiply(piece, mesh.size(step.axes))}, tensor.element);
  const TransferKind kind = transfer_kind(step.kind);
  Transfer transfer{.kind = kind,
                    .group = mesh.group(device, step.axes),
                    .source = kind == TransferKind::AllGather ? part : whole,
                    .target = kind == TransferKind::ReduceScatter ? part : whole};
  if (!reduces(step.kind)) return {transfer};
  switch (before.partial->reduction) {
    case PendingReduction::Sum:
      return {transfer};
    case PendingReduction::Max:
      transfer.reduction = Reduction::Max;
      return {transfer};
    case PendingReduction::LogSumExp:
      break;
  }
  // Every member scales its values by the largest before they are summed, so all need all of them.
  Transfer largest = transfer;
  largest.kind = TransferKind::AllReduce;
  largest.reduction = Reduction::Max;
  largest.source = largest.target =
      dense_operand({largest_shard(before, mesh, tensor.sizes)}, tensor.element);
  return {largest, transfer};
}

}  // namespace meshwright

#include "simulator/layout/relayout_step.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "costmodel/base/checked.h"

namespace meshwright {
namespace {

using Axes = std::vector<AxisId>;

constexpr std::array kKinds = {RelayoutKind::Slice, RelayoutKind::AllGather, RelayoutKind::AllToAll,
                               RelayoutKind::ReduceScatter, RelayoutKind::AllReduce};

Axes last_axes(const Layout& layout, std::size_t dim, std::size_t count) {
  const Axes& axes = layout.dims[dim].sharding.axes;
  return {axes.end() - static_cast<std::ptrdiff_t>(count), axes.end()};
}

bool has_all(const Axes& axes, const Axes& wanted) {
  return std::ranges::all_of(wanted, [&](AxisId axis) { return std::ranges::count(axes, axis); });
}

// Each of these returns whether it could.

bool take_last(Layout& layout, DimId from, const Axes& axes) {
  const std::size_t dim = position_of(layout, from);
  if (dim == layout.dims.size() || axes.empty()) return false;
  Sharding& sharding = layout.dims[dim].sharding;
  if (sharding.axes.size() < axes.size() || last_axes(layout, dim, axes.size()) != axes) {
    return false;
  }
  sharding.axes.resize(sharding.axes.size() - axes.size());
  if (sharding.axes.empty()) sharding.order = ShardOrder::Contiguous;
  return true;
}

bool take_partial(Layout& layout, const Axes& axes) {
  if (!layout.partial || axes.empty() || !has_all(layout.partial->axes, axes)) return false;
  std::erase_if(layout.partial->axes, [&](AxisId axis) { return std::ranges::count(axes, axis); });
  if (layout.partial->axes.empty()) layout.partial.reset();
  return true;
}

bool add_cut(Layout& layout, DimId to, const Axes& axes, ShardOrder order) {
  const std::size_t dim = position_of(layout, to);
  if (dim == layout.dims.size() || axes.empty()) return false;
  Sharding& sharding = layout.dims[dim].sharding;
  if (!sharding.axes.empty() && sharding.order != order) return false;
  sharding.order = order;
  sharding.axes.insert(sharding.axes.end(), axes.begin(), axes.end());
  Axes all = axes_of(layout);
  return std::ranges::adjacent_find(all) == all.end();
}

// `step` with `to` cut by its axes: as the dimension is cut already, or in any order if it is not.
void add_cuts(std::vector<RelayoutStep>& steps, RelayoutStep step, const Layout& before,
              std::size_t to, const StepChoices& choices) {
  step.to = before.dims[to].dim;
  const Sharding& sharding = before.dims[to].sharding;
  if (!sharding.axes.empty()) {
    step.order = sharding.order;
    steps.push_back(std::move(step));
    return;
  }
  for (const ShardOrder order : choices.orders) {
    step.order = order;
    steps.push_back(step);
  }
}

void add_slices(std::vector<RelayoutStep>& steps, const Layout& layout,
                const StepChoices& choices) {
  const Axes used = axes_of(layout);
  for (const AxisId axis : choices.axes) {
    if (std::ranges::count(used, axis) > 0) continue;
    const RelayoutStep slice{.kind = RelayoutKind::Slice, .axes = {axis}};
    for (std::size_t to = 0; to < layout.dims.size(); ++to) {
      add_cuts(steps, slice, layout, to, choices);
    }
  }
}

void add_gathers_and_moves(std::vector<RelayoutStep>& steps, const Layout& layout,
                           const StepChoices& choices) {
  for (std::size_t from = 0; from < layout.dims.size(); ++from) {
    for (std::size_t count = 1; count <= layout.dims[from].sharding.axes.size(); ++count) {
      RelayoutStep step{.kind = RelayoutKind::AllGather,
                        .axes = last_axes(layout, from, count),
                        .from = layout.dims[from].dim};
      steps.push_back(step);
      step.kind = RelayoutKind::AllToAll;
      for (std::size_t to = 0; to < layout.dims.size(); ++to) {
        if (to != from) add_cuts(steps, step, layout, to, choices);
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
    RelayoutStep step{.kind = RelayoutKind::AllReduce, .axes = axes};
    // The order of the group decides who gets which part, and an all-reduce has no parts.
    if (std::ranges::is_sorted(axes)) steps.push_back(step);
    step.kind = RelayoutKind::ReduceScatter;
    for (std::size_t to = 0; to < layout.dims.size(); ++to) {
      add_cuts(steps, step, layout, to, choices);
    }
  }
}

// The smallest pieces that the step deals with: cut as before and as after it.
std::int64_t piece_elements(const RelayoutStep& step, const Layout& before, const Mesh& mesh,
                            const MovedTensor& tensor) {
  Layout pieces = before;
  if (step.to) {
    const std::size_t to = position_of(before, *step.to);
    pieces.dims[to] = layout_after(step, before)->dims[to];
  }
  return largest_shard(pieces, mesh, tensor.sizes);
}

bool reduces(RelayoutKind kind) {
  return kind == RelayoutKind::ReduceScatter || kind == RelayoutKind::AllReduce;
}

}  // namespace

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

std::string_view to_text(RelayoutKind kind) {
  return kind == RelayoutKind::Slice ? "slice" : to_text(transfer_kind(kind));
}

std::optional<Layout> layout_after(const RelayoutStep& step, const Layout& before) {
  Layout layout = before;
  const auto cut = [&] { return step.to && add_cut(layout, *step.to, step.axes, step.order); };
  const auto taken = [&] { return step.from && take_last(layout, *step.from, step.axes); };
  const bool done = [&] {
    switch (step.kind) {
      case RelayoutKind::Slice:
        return !step.from && cut();
      case RelayoutKind::AllGather:
        return !step.to && taken();
      case RelayoutKind::AllToAll:
        return step.from != step.to && taken() && cut();
      case RelayoutKind::ReduceScatter:
        return !step.from && take_partial(layout, step.axes) && cut();
      case RelayoutKind::AllReduce:
        return !step.from && !step.to && take_partial(layout, step.axes);
    }
    return false;
  }();
  return done ? std::optional(layout) : std::nullopt;
}

std::optional<Layout> layout_after(const RelayoutSteps& steps, Layout before) {
  for (const RelayoutStep& step : steps) {
    std::optional<Layout> next = layout_after(step, before);
    if (!next) return std::nullopt;
    before = std::move(*next);
  }
  return before;
}

std::optional<Layout> layout_before(const RelayoutSteps& gathers, Layout after) {
  Layout before = after;
  for (auto step = gathers.rbegin(); step != gathers.rend(); ++step) {
    const bool gather = step->kind == RelayoutKind::AllGather && step->from;
    if (!gather || !add_cut(before, *step->from, step->axes, step->order)) return std::nullopt;
  }
  if (layout_after(gathers, before) != after) return std::nullopt;
  return before;
}

std::string step_text(const RelayoutStep& step, const Mesh& mesh, const std::vector<Dim>& dims) {
  std::string text(to_text(step.kind));
  for (const AxisId axis : step.axes) text += " " + mesh.axis(axis).name;
  for (const auto& dim : {step.from, step.to}) {
    if (dim) text += " " + dims[dim->index()].name;
  }
  if (step.order == ShardOrder::Zigzag) text += "~";
  return text;
}

std::optional<RelayoutStep> parse_step(std::string_view text, const Mesh& mesh,
                                       const std::vector<Dim>& dims) {
  RelayoutStep step;
  if (text.ends_with('~')) {
    step.order = ShardOrder::Zigzag;
    text.remove_suffix(1);
  }
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const auto kind =
      std::ranges::find_if(kKinds, [&](RelayoutKind k) { return to_text(k) == words.front(); });
  if (kind == kKinds.end()) return std::nullopt;
  step.kind = *kind;
  std::size_t word = 1;
  for (; word < words.size(); ++word) {
    const auto axis = mesh.find(words[word]);
    if (!axis) break;
    step.axes.push_back(*axis);
  }
  std::vector<std::optional<DimId>*> places;
  if (step.kind == RelayoutKind::AllGather || step.kind == RelayoutKind::AllToAll) {
    places.push_back(&step.from);
  }
  if (step.kind != RelayoutKind::AllGather && step.kind != RelayoutKind::AllReduce) {
    places.push_back(&step.to);
  }
  if (step.axes.empty() || words.size() - word != places.size()) return std::nullopt;
  for (std::optional<DimId>* place : places) {
    const auto dim = std::ranges::find(dims, words[word++], &Dim::name);
    if (dim == dims.end()) return std::nullopt;
    *place = DimId(static_cast<std::size_t>(dim - dims.begin()));
  }
  return step;
}

std::vector<RelayoutStep> steps_from(const Layout& layout, const StepChoices& choices) {
  std::vector<RelayoutStep> steps;
  add_slices(steps, layout, choices);
  add_gathers_and_moves(steps, layout, choices);
  add_reductions(steps, layout, choices);
  std::erase_if(steps, [&](const RelayoutStep& step) {
    return step.to && std::ranges::count(choices.uncut, *step.to) > 0;
  });
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

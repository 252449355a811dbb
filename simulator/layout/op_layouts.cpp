#include "simulator/layout/op_layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace meshwright {
namespace {

bool has(const std::vector<DimId>& dims, DimId dim) { return std::ranges::count(dims, dim) > 0; }

template <class Operand>
bool any_has(const std::vector<const Operand*>& operands, DimId dim) {
  return std::ranges::any_of(operands, [&](const Operand* o) { return has(o->dims, dim); });
}

std::set<DimId> dims_in(const OpView& view) {
  std::set<DimId> dims;
  for (const Tensor* input : view.inputs) dims.insert(input->dims.begin(), input->dims.end());
  for (const Weight* weight : view.weights) dims.insert(weight->dims.begin(), weight->dims.end());
  for (const Tensor* output : view.outputs) dims.insert(output->dims.begin(), output->dims.end());
  return dims;
}

// A free dimension that no output has (of an operand that is joined to others) has no shard of a
// result to become.
DimUse use_for_layout(const OpView& view, DimId dim) {
  const DimUse use = use_of(view, dim);
  return use == DimUse::Free && !any_has(view.outputs, dim) ? DimUse::Whole : use;
}

// What of the work is the op's, with its rules.
struct CutDim {
  DimId dim;
  Sharding sharding;
  DimUse use = DimUse::Free;
};

std::vector<CutDim> cut_dims(const OpView& view, const DividedWork& work,
                             const std::optional<DimId>& passed_on) {
  std::vector<CutDim> cut;
  for (const DimId dim : dims_in(view)) {
    const auto found = work.find(dim);
    if (found == work.end() || found->second.axes.empty()) continue;
    const DimUse use = dim == passed_on ? DimUse::Free : use_for_layout(view, dim);
    cut.push_back({dim, found->second, use});
  }
  return cut;
}

// Whether an axis cuts another dimension of a weight than this one.
bool cuts_weight(const OpView& view, const std::vector<CutDim>& cut, DimId dim, AxisId axis) {
  return std::ranges::any_of(cut, [&](const CutDim& other) {
    return other.dim != dim && any_has(view.weights, other.dim) &&
           std::ranges::count(other.sharding.axes, axis) > 0;
  });
}

std::vector<std::string> faults_of(const OpView& view, const std::vector<Dim>& dims,
                                   const Mesh& mesh, const std::vector<CutDim>& cut) {
  std::vector<std::string> faults;
  std::map<AxisId, DimId> user;
  for (const CutDim& c : cut) {
    const std::string& name = dims[c.dim.index()].name;
    if (c.use == DimUse::Whole) {
      faults.push_back(fmt::format("{}: dimension {} must be whole", view.op->name, name));
    }
    for (const AxisId axis : c.sharding.axes) {
      // Rows are moved before they meet what is cut so, whichever axes cut them before.
      if (c.use == DimUse::Routed && !cuts_weight(view, cut, c.dim, axis)) continue;
      const auto [other, first] = user.emplace(axis, c.dim);
      if (first) continue;
      faults.push_back(fmt::format("{}: axis {} cuts both {} and {}", view.op->name,
                                   mesh.axis(axis).name, dims[other->second.index()].name, name));
    }
  }
  return faults;
}

Layout cut_layout(const std::vector<DimId>& dims, const std::vector<CutDim>& cut) {
  Layout layout = replicated(dims);
  for (DimLayout& dim : layout.dims) {
    const auto found = std::ranges::find(cut, dim.dim, &CutDim::dim);
    if (found != cut.end()) dim.sharding = found->sharding;
  }
  return layout;
}

// The layout, partial over the axes of the cut dimensions of one use that it lacks.
Layout partial_over(Layout layout, const std::vector<CutDim>& cut, DimUse use) {
  std::vector<AxisId> axes;
  for (const CutDim& c : cut) {
    const bool lacks = std::ranges::count(layout.dims, c.dim, &DimLayout::dim) == 0;
    if (c.use == use && lacks) {
      axes.insert(axes.end(), c.sharding.axes.begin(), c.sharding.axes.end());
    }
  }
  const std::vector<AxisId> own = axes_of(layout);
  std::erase_if(axes, [&](AxisId axis) { return std::ranges::count(own, axis) > 0; });
  std::ranges::sort(axes);
  if (!axes.empty()) layout.partial = Partial{.axes = std::move(axes)};
  return layout;
}

// The loss needs the log of a sum of exponentials, norms need sums (of values and their squares).
PendingReduction statistics_reduction(OpKind kind) {
  return kind == OpKind::CrossEntropy ? PendingReduction::LogSumExp : PendingReduction::Sum;
}

OpLayouts divided(const OpView& view, const std::vector<CutDim>& cut) {
  OpLayouts layouts;
  for (const Tensor* input : view.inputs) {
    layouts.inputs.push_back(cut_layout(input->dims, cut));
    layouts.input_gradients.push_back(partial_over(layouts.inputs.back(), cut, DimUse::Free));
  }
  for (const Weight* weight : view.weights) {
    layouts.weights.push_back(cut_layout(weight->dims, cut));
    layouts.weight_gradients.push_back(partial_over(layouts.weights.back(), cut, DimUse::Free));
  }
  for (const Tensor* output : view.outputs) {
    layouts.outputs.push_back(partial_over(cut_layout(output->dims, cut), cut, DimUse::Contracted));
  }
  for (const CutDim& c : cut) {
    if (c.use != DimUse::Normalized) continue;
    layouts.statistics.push_back({c.dim, c.sharding.axes, statistics_reduction(view.op->kind)});
  }
  const bool product = view.op->kind == OpKind::Matmul || view.op->kind == OpKind::ExpertMatmul;
  if (product && view.weights.size() > 1) layouts.added_weights.push_back(1);
  return layouts;
}

// Known by its dimensions alone, and none of them survives.
bool has_no_rule(const OpView& view) {
  return view.op->kind == OpKind::Generic &&
         std::ranges::none_of(dims_in(view), [&](const DimId dim) {
           return use_for_layout(view, dim) != DimUse::Whole;
         });
}

std::string without_rule_text(const OpView& view) {
  const auto* generic = std::get_if<GenericAttributes>(&view.op->attributes);
  return fmt::format("{}: no rule says how to divide {}; every device repeats it", view.op->name,
                     generic != nullptr ? generic->what : std::string(to_text(view.op->kind)));
}

}  // namespace

std::variant<OpLayouts, NotDivisible> layouts_of(const OpView& view, const std::vector<Dim>& dims,
                                                 const Mesh& mesh, const DividedWork& work,
                                                 const std::optional<DimId>& passed_on) {
  if (has_no_rule(view)) {
    OpLayouts layouts = divided(view, {});
    layouts.replicated_because = without_rule_text(view);
    return layouts;
  }
  const std::vector<CutDim> cut = cut_dims(view, work, passed_on);
  std::vector<std::string> faults = faults_of(view, dims, mesh, cut);
  if (!faults.empty()) return NotDivisible{std::move(faults)};
  return divided(view, cut);
}

}  // namespace meshwright

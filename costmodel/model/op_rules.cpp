#include "costmodel/model/op_rules.h"

#include <algorithm>

#include "costmodel/base/checked.h"

namespace meshwright {
namespace {

bool has(const std::vector<DimId>& dims, DimId dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

// Every dimension of input and weight once, the experts left out: a row meets one expert.
Flops matmul_flops(const OpView& view, const DimSizes& sizes) {
  std::int64_t products = sizes.elements(view.inputs[0]->dims);
  for (const DimId dim : view.weights[0]->dims) {
    const bool chosen = view.op->kind == OpKind::ExpertMatmul && dim == view.weights[0]->dims[0];
    if (!chosen && !has(view.inputs[0]->dims, dim)) {
      products = checked_multiply(products, sizes[dim]);
    }
  }
  return Flops(checked_multiply(2, products));
}

// Scores of every query with every key, then as many sums of values.
Flops attention_flops(const OpView& view, const DimSizes& sizes) {
  const std::int64_t keys = sizes[view.inputs[1]->dims[1]];
  const std::int64_t scores = checked_multiply(sizes.elements(view.inputs[0]->dims), keys);
  const std::int64_t sums = checked_multiply(sizes.elements(view.outputs[0]->dims), keys);
  return Flops(checked_multiply(2, checked_add(scores, sums)));
}

bool any_input_gradient(const OpView& view) {
  return std::any_of(view.inputs.begin(), view.inputs.end(),
                     [](const Tensor* tensor) { return tensor->needs_gradient; });
}

bool any_trainable(const OpView& view) {
  return std::any_of(view.weights.begin(), view.weights.end(),
                     [](const Weight* weight) { return !weight->frozen; });
}

Needs nothing(const OpView& view) {
  return {std::vector<bool>(view.inputs.size(), false),
          std::vector<bool>(view.outputs.size(), false), false};
}

Needs all_inputs(const OpView& view, bool weights = false) {
  Needs needs = nothing(view);
  needs.inputs.assign(view.inputs.size(), true);
  needs.weights = weights;
  return needs;
}

Needs input_gradient_needs(const OpView& view) {
  Needs needs = nothing(view);
  switch (view.op->kind) {
    case OpKind::Matmul:
      needs.weights = true;
      return needs;
    case OpKind::ExpertMatmul:
      needs.weights = true;
      needs.inputs[1] = true;
      return needs;
    case OpKind::Dispatch:
      needs.inputs[1] = true;
      return needs;
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
      return all_inputs(view, true);
    case OpKind::Attention:
    case OpKind::Activation:
    case OpKind::GatedActivation:
    case OpKind::Router:
    case OpKind::Combine:
    case OpKind::CrossEntropy:
    case OpKind::Generic:
      return all_inputs(view, view.op->kind == OpKind::Generic);
    case OpKind::Embedding:
    case OpKind::RelativeBias:
    case OpKind::Rope:
    case OpKind::Add:
    case OpKind::Scale:
    case OpKind::Dropout:
    case OpKind::Split:
    case OpKind::Concat:
    case OpKind::SelectFirst:
      return needs;
  }
  return needs;
}

Needs weight_gradient_needs(const OpView& view) {
  switch (view.op->kind) {
    case OpKind::Matmul:
    case OpKind::ExpertMatmul:
      // A bias alone needs only the gradient that comes in.
      return view.weights[0]->frozen ? nothing(view) : all_inputs(view);
    case OpKind::Embedding:
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
    case OpKind::Generic:
      return all_inputs(view);
    case OpKind::Router: {
      Needs needs = nothing(view);
      needs.outputs[1] = true;
      return needs;
    }
    default:
      return nothing(view);
  }
}

}  // namespace

OpView view_of(const Model& model, const Block& block, const Op& op) {
  OpView view{.op = &op};
  for (const TensorId id : op.inputs) view.inputs.push_back(&block.tensors[id.index()]);
  for (const WeightUse& use : op.weights) view.weights.push_back(&weight_of(model, block, use));
  for (const TensorId id : op.outputs) view.outputs.push_back(&block.tensors[id.index()]);
  return view;
}

OpFlops flops_of(const OpView& view, const DimSizes& sizes) {
  OpFlops flops;
  switch (view.op->kind) {
    case OpKind::Matmul:
    case OpKind::ExpertMatmul:
      flops.forward = matmul_flops(view, sizes);
      if (view.inputs[0]->needs_gradient) flops.input_gradient = flops.forward;
      if (!view.weights[0]->frozen) flops.weight_gradient = flops.forward;
      return flops;
    case OpKind::Attention:
      flops.forward = attention_flops(view, sizes);
      // Each of the two products has two gradients.
      if (any_input_gradient(view)) flops.input_gradient = flops.forward * 2;
      return flops;
    default:
      return flops;
  }
}

BackwardNeeds backward_needs(const OpView& view) {
  BackwardNeeds needs;
  needs.has_input_gradient = any_input_gradient(view);
  needs.has_weight_gradient = any_trainable(view);
  needs.input_gradient = needs.has_input_gradient ? input_gradient_needs(view) : nothing(view);
  needs.weight_gradient = needs.has_weight_gradient ? weight_gradient_needs(view) : nothing(view);
  return needs;
}

bool is_view(OpKind kind) { return kind == OpKind::Split || kind == OpKind::SelectFirst; }

DimUse use_of(const OpView& view, DimId dim) {
  switch (view.op->kind) {
    case OpKind::Embedding:
      return dim == view.weights[0]->dims[0] ? DimUse::Contracted : DimUse::Free;
    case OpKind::RelativeBias:
      return dim == view.weights[0]->dims[0] ? DimUse::Whole : DimUse::Free;
    case OpKind::Matmul:
      return has(view.outputs[0]->dims, dim) ? DimUse::Free : DimUse::Contracted;
    case OpKind::ExpertMatmul:
      if (dim == view.weights[0]->dims[0]) return DimUse::Routed;
      if (dim == view.inputs[1]->dims.back()) return DimUse::Whole;  // a token's choices
      return has(view.outputs[0]->dims, dim) ? DimUse::Free : DimUse::Contracted;
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
      return has(view.weights[0]->dims, dim) ? DimUse::Normalized : DimUse::Free;
    case OpKind::Rope:
      return dim == view.inputs[0]->dims.back() ? DimUse::Whole : DimUse::Free;
    case OpKind::Attention: {
      const auto& keys = view.inputs[1]->dims;
      if (dim == keys[1]) return DimUse::Whole;  // every query meets every key
      if (dim == keys.back()) return DimUse::Whole;
      return DimUse::Free;
    }
    case OpKind::Split:
    case OpKind::Concat: {
      // What a piece has of the dimension that is cut, or joined, is a dimension of the piece
      // alone.
      const bool split = view.op->kind == OpKind::Split;
      const auto& all = split ? view.inputs[0]->dims : view.outputs[0]->dims;
      const bool cut = dim == std::get<AxisAttributes>(view.op->attributes).dim;
      return cut || !has(all, dim) ? DimUse::Whole : DimUse::Free;
    }
    case OpKind::SelectFirst:
      return dim == view.inputs[0]->dims[1] ? DimUse::Whole : DimUse::Free;
    case OpKind::Router:
      return dim == view.inputs[0]->dims.back() || dim == view.outputs[0]->dims.back()
                 ? DimUse::Whole
                 : DimUse::Free;
    case OpKind::Dispatch:
    case OpKind::Combine:
      return dim == view.inputs[1]->dims.back() ? DimUse::Whole : DimUse::Free;
    case OpKind::CrossEntropy:
      // Over the vocabulary the loss needs combined statistics; over tokens it is a sum.
      return dim == view.inputs[0]->dims.back() ? DimUse::Normalized : DimUse::Contracted;
    case OpKind::Activation:
    case OpKind::GatedActivation:
    case OpKind::Add:
    case OpKind::Scale:
    case OpKind::Dropout:
      return DimUse::Free;
    case OpKind::Generic:
      // Known by its dimensions alone: what survives is free, anything else must be whole.
      return std::all_of(view.outputs.begin(), view.outputs.end(),
                         [&](const Tensor* t) { return has(t->dims, dim); })
                 ? DimUse::Free
                 : DimUse::Whole;
  }
  return DimUse::Whole;
}

}  // namespace meshwright

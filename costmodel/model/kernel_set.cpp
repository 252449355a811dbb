#include "costmodel/model/kernel_set.h"

#include <algorithm>
#include <array>

namespace meshwright {
namespace {

constexpr Bytes kMask = 1_B;
constexpr Bytes kStatistic = 4_B;  // fp32

std::int64_t row_count(const std::vector<DimId>& dims, std::size_t row_dims,
                       const DimSizes& sizes) {
  return sizes.elements({dims.begin(), dims.end() - static_cast<std::ptrdiff_t>(row_dims)});
}

KeptShape shape_of(const OpView& view, const DimSizes& sizes) {
  if (view.inputs.empty()) return {};
  const auto& dims = view.inputs[0]->dims;
  KeptShape shape{.elements = sizes.elements(dims)};
  switch (view.op->kind) {
    case OpKind::Attention:
      shape.rows = row_count(dims, 1, sizes);
      shape.keys = sizes[view.inputs[1]->dims[1]];
      return shape;
    case OpKind::CrossEntropy:
      shape.rows = row_count(dims, 1, sizes);
      return shape;
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
      shape.rows = row_count(dims, view.weights[0]->dims.size(), sizes);
      return shape;
    default:
      return shape;
  }
}

// The probabilities, and with dropout its mask and what it leaves of them.
Bytes kept_scores(const OpAttributes& attributes, const KeptShape& shape, Bytes element) {
  const std::int64_t scores = checked_multiply(shape.rows, shape.keys);
  const bool drops = std::get<AttentionAttributes>(attributes).dropout > 0;
  return element * scores + (drops ? kMask * scores + element * scores : 0_B);
}

// Numbers a row.
std::int64_t statistics_of(OpKind kind, KernelSet kernels) {
  if (kind == OpKind::LayerNorm) return 2;  // mean and scale
  // The largest logit, the sum of exponentials, the label's logit; or their log-sum-exp.
  return kind == OpKind::CrossEntropy && kernels == KernelSet::Executor ? 3 : 1;
}

constexpr std::array kKernelSets = {KernelSet::Executor, KernelSet::Flash, KernelSet::Eager,
                                    KernelSet::Unfused};

}  // namespace

std::optional<KernelSet> parse_kernel_set(std::string_view text) {
  for (const KernelSet kernels : kKernelSets) {
    if (text == to_text(kernels)) return kernels;
  }
  return std::nullopt;
}

std::string kernel_set_names() {
  std::string names(to_text(kKernelSets[0]));
  for (std::size_t i = 1; i < kKernelSets.size(); ++i) {
    names += i + 1 < kKernelSets.size() ? ", " : " or ";
    names += to_text(kKernelSets[i]);
  }
  return names;
}

std::string_view to_text(KernelSet kernels) {
  switch (kernels) {
    case KernelSet::Unfused:
      return "unfused";
    case KernelSet::Flash:
      return "flash";
    case KernelSet::Eager:
      return "eager";
    case KernelSet::Executor:
      return "executor";
  }
  return "";
}

Saved saved_by(KernelSet kernels, const OpView& view, const DimSizes& sizes, Bytes element) {
  const BackwardNeeds needs = backward_needs(view);
  Saved saved;
  for (std::size_t i = 0; i < view.inputs.size(); ++i) {
    saved.inputs.push_back(needs.input_gradient.inputs[i] || needs.weight_gradient.inputs[i]);
  }
  for (std::size_t i = 0; i < view.outputs.size(); ++i) {
    saved.outputs.push_back(needs.input_gradient.outputs[i] || needs.weight_gradient.outputs[i]);
  }
  if (!needs.has_input_gradient && !needs.has_weight_gradient) return saved;
  const KeptShape shape = shape_of(view, sizes);
  saved.extra = kept_beside(kernels, view.op->kind, view.op->attributes, shape, element);
  saved.workspace = workspace_of(kernels, view.op->kind, shape, element);
  if (view.op->kind == OpKind::Attention && kernels != KernelSet::Unfused) saved.outputs[0] = true;
  // Probabilities take the place of the logits.
  if (view.op->kind == OpKind::CrossEntropy && keeps_probabilities(kernels)) {
    saved.inputs[0] = false;
  }
  return saved;
}

Bytes kept_beside(KernelSet kernels, OpKind kind, const OpAttributes& attributes,
                  const KeptShape& shape, Bytes element) {
  const bool unfused = kernels == KernelSet::Unfused;
  switch (kind) {
    case OpKind::Dropout:
      return kernels == KernelSet::Executor ? 0_B : kMask * shape.elements;
    case OpKind::Attention:
      if (unfused) return kept_scores(attributes, shape, element);
      break;
    case OpKind::CrossEntropy:
      if (keeps_probabilities(kernels)) return kStatistic * shape.elements;
      break;
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
      if (unfused) return 0_B;
      break;
    default:
      return 0_B;
  }
  return std::max(kStatistic, element) * checked_multiply(statistics_of(kind, kernels), shape.rows);
}

Bytes workspace_of(KernelSet kernels, OpKind kind, const KeptShape& shape, Bytes element) {
  if (kind == OpKind::Attention && kernels == KernelSet::Unfused) {
    return element * checked_multiply(shape.rows, shape.keys);
  }
  const bool copies = kind == OpKind::CrossEntropy && keeps_probabilities(kernels);
  return copies ? kStatistic * shape.elements : 0_B;
}

// PyTorch has the gradients of the probabilities' logarithms and of the logits in fp32, before
// these are cast. Where the loss is split over devices as in Megatron-LM it works in place.
Bytes loss_gradient_workspace(KernelSet kernels, const KeptShape& shape, Bytes element) {
  if (kernels != KernelSet::Eager) return 0_B;
  const Bytes both = 2 * kStatistic * shape.elements;
  return both - std::min(both, element * shape.elements);
}

bool keeps_probabilities(KernelSet kernels) {
  return kernels == KernelSet::Unfused || kernels == KernelSet::Eager;
}

}  // namespace meshwright

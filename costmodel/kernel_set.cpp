#include "costmodel/kernel_set.h"

namespace meshwright {
namespace {

constexpr Bytes kMask = 1_B;
constexpr Bytes kStatistic = 4_B;  // fp32

// One entry for every query, head and key.
std::int64_t score_count(const OpView& view, const DimSizes& sizes) {
  const auto& q = view.inputs[0]->dims;
  return checked_multiply(sizes.elements({q.begin(), q.end() - 1}), sizes[view.inputs[1]->dims[1]]);
}

std::int64_t row_count(const std::vector<DimId>& dims, std::size_t row_dims,
                       const DimSizes& sizes) {
  return sizes.elements({dims.begin(), dims.end() - static_cast<std::ptrdiff_t>(row_dims)});
}

void save_attention(Saved& saved, KernelSet kernels, const OpView& view, const DimSizes& sizes,
                    Bytes element) {
  if (kernels == KernelSet::Flash) {
    saved.outputs[0] = true;
    saved.extra = kStatistic * row_count(view.inputs[0]->dims, 1, sizes);
    return;
  }
  const std::int64_t scores = score_count(view, sizes);
  const bool drops = std::get<AttentionAttributes>(view.op->attributes).dropout > 0;
  // The probabilities, and with dropout its mask and what it leaves of them.
  saved.extra = element * scores;
  if (drops) saved.extra += kMask * scores + element * scores;
  saved.workspace = element * scores;
}

void save_loss(Saved& saved, KernelSet kernels, const OpView& view, const DimSizes& sizes) {
  const auto& logits = view.inputs[0]->dims;
  if (kernels == KernelSet::Flash) {
    saved.extra = kStatistic * row_count(logits, 1, sizes);
    return;
  }
  // The probabilities in fp32 take the place of the logits.
  saved.inputs[0] = false;
  saved.extra = kStatistic * sizes.elements(logits);
  saved.workspace = saved.extra;
}

}  // namespace

std::optional<KernelSet> parse_kernel_set(std::string_view text) {
  for (const KernelSet kernels : {KernelSet::Unfused, KernelSet::Flash}) {
    if (text == to_text(kernels)) return kernels;
  }
  return std::nullopt;
}

std::string_view to_text(KernelSet kernels) {
  switch (kernels) {
    case KernelSet::Unfused:
      return "unfused";
    case KernelSet::Flash:
      return "flash";
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
  switch (view.op->kind) {
    case OpKind::Attention:
      save_attention(saved, kernels, view, sizes, element);
      return saved;
    case OpKind::CrossEntropy:
      save_loss(saved, kernels, view, sizes);
      return saved;
    case OpKind::Dropout:
      saved.extra = kMask * sizes.elements(view.inputs[0]->dims);
      return saved;
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
      if (kernels == KernelSet::Flash) {
        const std::int64_t statistics = view.op->kind == OpKind::LayerNorm ? 2 : 1;
        saved.extra = kStatistic *
                      checked_multiply(statistics, row_count(view.inputs[0]->dims,
                                                             view.weights[0]->dims.size(), sizes));
      }
      return saved;
    default:
      return saved;
  }
}

}  // namespace meshwright

#include "executor/cpu/kernels.h"

#include <stdexcept>
#include <string>

#include "executor/cpu/widened_call.h"

namespace meshwright {
namespace {

using Entry = void (*)(const KernelCall&);

// The entry of a kernel that has these phases only.
struct Entries {
  Entry forward = nullptr;
  Entry input_gradient = nullptr;
  Entry weight_gradient = nullptr;
  Entry step = nullptr;
};

template <class Real>
Entries entries_of(KernelKind kind) {
  switch (kind) {
    case KernelKind::Load:
      return {};
    case KernelKind::Embedding:
      return {.forward = embedding_forward<Real>,
              .weight_gradient = embedding_weight_gradient<Real>};
    case KernelKind::RowSums:
      return {row_sums_forward<Real>, row_sums_input_gradient<Real>};
    case KernelKind::LayerNorm:
      return {layer_norm_forward<Real>, layer_norm_input_gradient<Real>,
              layer_norm_weight_gradient<Real>};
    case KernelKind::RmsNorm:
      return {rms_norm_forward<Real>, rms_norm_input_gradient<Real>,
              rms_norm_weight_gradient<Real>};
    case KernelKind::Matmul:
      return {matmul_forward<Real>, matmul_input_gradient<Real>, matmul_weight_gradient<Real>};
    case KernelKind::Rope:
      return {rope_forward<Real>, rope_input_gradient<Real>};
    case KernelKind::Attention:
      return {attention_forward<Real>, attention_input_gradient<Real>};
    case KernelKind::Activation:
      return {activation_forward<Real>, activation_input_gradient<Real>};
    case KernelKind::GatedActivation:
      return {gated_activation_forward<Real>, gated_activation_input_gradient<Real>};
    case KernelKind::Scale:
      return {scale_forward<Real>, scale_input_gradient<Real>};
    case KernelKind::Dropout:
      return {dropout_forward<Real>, dropout_input_gradient<Real>};
    case KernelKind::Add:
      return {.forward = add_forward<Real>};
    case KernelKind::Router:
      return {router_forward<Real>, router_input_gradient<Real>, router_weight_gradient<Real>};
    case KernelKind::RouterCounts:
      return {.forward = router_counts_forward};
    case KernelKind::RouterRoom:
      return {.forward = router_room_forward};
    case KernelKind::BalanceSums:
      return {.forward = balance_sums_forward<Real>};
    case KernelKind::Balance:
      return {balance_forward, balance_input_gradient<Real>};
    case KernelKind::ExpertOrder:
      return {.forward = expert_order_forward};
    case KernelKind::Dispatch:
      return {dispatch_forward<Real>, dispatch_input_gradient<Real>};
    case KernelKind::SortRows:
      return {sort_rows_forward<Real>, sort_rows_input_gradient<Real>};
    case KernelKind::ExpertMatmul:
      return {expert_matmul_forward<Real>, expert_matmul_input_gradient<Real>,
              expert_matmul_weight_gradient<Real>};
    case KernelKind::Combine:
      return {combine_forward<Real>, combine_input_gradient<Real>};
    case KernelKind::Sum:
      return {sum_input_gradient<Real>, sum_input_gradient<Real>};
    case KernelKind::LossLargest:
      return {.forward = loss_largest_forward<Real>};
    case KernelKind::LossSums:
      return {.forward = loss_sums_forward<Real>};
    case KernelKind::Loss:
      return {loss_forward<Real>, loss_input_gradient<Real>};
    case KernelKind::NormLargest:
      return {.step = norm_largest_step<Real>};
    case KernelKind::NormSums:
      return {.step = norm_sums_step<Real>};
    case KernelKind::ClipFactor:
      return {.step = clip_factor_step};
    case KernelKind::AdamW:
      return {.step = adamw_step<Real>};
  }
  return {};
}

Entry entry_of(const Entries& entries, Phase phase) {
  switch (phase) {
    case Phase::Forward:
      return entries.forward;
    case Phase::InputGradient:
      return entries.input_gradient;
    case Phase::WeightGradient:
      return entries.weight_gradient;
    case Phase::Step:
      return entries.step;
  }
  return nullptr;
}

}  // namespace

bool has_kernels(Precision precision) {
  return precision == Precision::FP32 || precision == Precision::FP64 || is_widened(precision);
}

void run_kernel(const KernelCall& call, Precision precision) {
  const Kernel& kernel = call.kernel;
  const Entries entries = precision == Precision::FP64 ? entries_of<double>(kernel.kind)
                                                       : entries_of<float>(kernel.kind);
  const Entry entry = entry_of(entries, kernel.phase);
  if (entry == nullptr || !has_kernels(precision)) {
    throw std::logic_error("no kernel " + std::string(to_text(kernel.kind)) + " " +
                           std::string(to_text(kernel.phase)) + " in " +
                           std::string(to_text(precision)));
  }
  if (!is_widened(precision)) return entry(call);
  const WidenedCall widened(call, precision);
  entry(widened.call());
  widened.store();
}

}  // namespace meshwright

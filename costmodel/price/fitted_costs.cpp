#include "costmodel/price/fitted_costs.h"

#include <algorithm>
#include <string>

#include "costmodel/price/kernel_cost.h"
#include "costmodel/price/transfer_cost.h"

namespace meshwright {
namespace {

// Of kernels other than attention. Megatron-Core's router is some twenty small kernels each way,
// and counting its choices ten (moe/router.py, moe_utils.py, unfused).
std::int64_t launches_of(const Kernel& kernel, const SoftwarePrices& software) {
  constexpr std::int64_t kRouter = 20, kCounts = 10;
  if (kernel.kind == KernelKind::Loss) return software.loss_launches;
  if (kernel.kind == KernelKind::Router) return kRouter;
  if (kernel.kind == KernelKind::ExpertOrder) return kCounts;
  // A product for each expert, as Transformer Engine launches them.
  if (kernel.kind == KernelKind::ExpertMatmul) return gemm_shape(kernel, Precision::FP32).batch;
  const bool fused = kernel.kind == KernelKind::Add && kernel.phase == Phase::Forward;
  return fused && software.fused_adds ? 0 : 1;
}

// Launches that the device waits for. Products of experts are launched on several streams.
std::int64_t gaps_of(const Kernel& kernel, std::int64_t launches) {
  return kernel.kind == KernelKind::ExpertMatmul ? 1 : launches;
}

// Of the memory's bandwidth, what kernels reach on a GPU that bring rows into another order: what
// SimuMax measured on a B200 (its permute efficiency).
constexpr double kPermutedShare = 0.5;

// Times faster: FlashAttention-3 on H100, 1.2 PFLOP/s and 740 TFLOP/s (arXiv 2407.08608).
constexpr double kNarrowAttentionGain = 1.6;

// Between kernels that a graph launches: a rule of thumb.
constexpr double kGraphGap = 2e-6;

bool is_graphed(const Kernel& kernel, const SoftwarePrices& software) {
  return std::ranges::any_of(software.graphed, [&](const std::string& part) {
    return kernel.name.find(part) != std::string::npos;
  });
}

// What is part of the transfer that takes rows to their experts.
bool merged_into_transfer(KernelKind kind, RowExchange rows) {
  if (kind == KernelKind::SortRows) return rows == RowExchange::Ordered;
  const bool copies = kind == KernelKind::Dispatch || kind == KernelKind::Combine;
  return copies && rows != RowExchange::Copied;
}

bool permutes_rows(KernelKind kind) {
  return kind == KernelKind::Dispatch || kind == KernelKind::SortRows ||
         kind == KernelKind::Combine;
}

}  // namespace

FittedCosts::FittedCosts(const Cluster& cluster, const Fits& fits, const SoftwarePrices& software)
    : cluster_(cluster), network_(fits.network), software_(software) {
  for (const NodeType& type : cluster.node_types) {
    const DeviceFit* fit = find_fit(fits, type.device.name);
    known_[type.device.name] = fit ? Known{*fit, PriceOrigin::Fitted}
                                   : Known{formula_fit(type.device), PriceOrigin::Formula};
  }
}

const FittedCosts::Known& FittedCosts::known(DeviceId device) const {
  return known_.at(device_type_of(cluster_, device).name);
}

Price FittedCosts::kernel(const Kernel& kernel, Precision precision, DeviceId device) const {
  const Known& by = known(device);
  if (merged_into_transfer(kernel.kind, software_.rows)) {
    return {.time = Seconds(0), .origin = by.origin, .launches = 0};
  }
  const DeviceType& type = device_type_of(cluster_, device);
  AttentionKernel attention = software_.attention;
  std::int64_t launches = launches_of(kernel, software_);
  if (kernel.kind == KernelKind::Attention) {
    const AttentionShape shape = attention_shape(kernel);
    attention = usable_kernel(attention, shape);
    launches = attention_launches(shape, kernel.phase, precision, attention);
  }
  const Seconds time = kernel_time(kernel, precision, type, by.fit, attention);
  const Seconds launch(by.fit.launch_s);
  double longer = permutes_rows(kernel.kind) && type.multiprocessors
                      ? by.fit.memory_share / kPermutedShare
                      : times_longer(kernel.kind);
  const bool narrow = software_.narrow_attention && precision == Precision::FP8;
  if (narrow && kernel.kind == KernelKind::Attention) longer /= kNarrowAttentionGain;
  const auto gaps = static_cast<double>(gaps_of(kernel, launches));
  const Seconds gap(is_graphed(kernel, software_) ? kGraphGap : software_.kernel_gap_s);
  return {.time = launch + gap * gaps + (time - launch) * longer,
          .origin = by.origin,
          .launches = launches};
}

double FittedCosts::times_longer(KernelKind kind) const {
  switch (kind) {
    case KernelKind::Matmul:
    case KernelKind::ExpertMatmul:
    case KernelKind::NormLargest:
    case KernelKind::NormSums:
    case KernelKind::ClipFactor:
    case KernelKind::AdamW:  // one fused kernel with every software here
      return 1;
    case KernelKind::Attention:
      return 1 / software_.attention_share;
    default:
      return software_.compiled ? std::min(software_.row_passes, 1.0) : software_.row_passes;
  }
}

Price FittedCosts::transfer(const Transfer& transfer, Precision precision) const {
  const Known& by = known(transfer.group.front());
  if (transfer.group.size() == 1) return {.time = Seconds(0), .origin = by.origin};
  const Bytes size = bytes_of(transfer, precision);
  if (!transfer.rows) {
    return {.time = carried(transfer.kind, size, transfer.group).time, .origin = by.origin};
  }
  const Seconds time =
      software_.rows == RowExchange::Copied
          ? carried(transfer.kind, size, transfer.group).time
          : merged_rows_time(size, software_.choices, group_shape(cluster_, transfer.group),
                             group_links(cluster_, transfer.group, by.fit.links));
  return {.time = time * (1 - software_.hidden_rows), .origin = by.origin};
}

CollectiveTime FittedCosts::carried(TransferKind kind, Bytes size,
                                    const std::vector<DeviceId>& group) const {
  const LinkFit& fit = known(group.front()).fit.links;
  return collective_time(kind, size, group_shape(cluster_, group),
                         group_links(cluster_, group, fit), fit, network_);
}

}  // namespace meshwright

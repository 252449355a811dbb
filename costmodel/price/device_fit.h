#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/cluster/cluster.h"

namespace meshwright {

// How attention is computed. Unfused and FusedSoftmax store the score matrix; FusedSoftmax does
// scaling, mask and softmax in one kernel. The others work in blocks: the first and second
// FlashAttention, and the newest one of the device (FlashAttention-3 or -4, cuDNN).
enum class AttentionKernel { Unfused, FusedSoftmax, Flash1, Flash2, Newest };
std::string_view to_text(AttentionKernel kernel);
std::optional<AttentionKernel> parse_attention_kernel(std::string_view text);
bool stores_scores(AttentionKernel kernel);

// Matrix products; the formula stands in kernel_cost.cpp.
struct GemmFit {
  double share = 0;         // of the peak that the inner loop reaches with the largest tile
  double ramp = 0;          // elements of K that starting and ending a tile costs
  double tile_load = 0;     // elements of a tile's side at which loading costs as much as computing
  double quantization = 0;  // 0: the last wave is free, 1: it takes as long as a full one
  double memory_share = 0;  // of the memory bandwidth
  double split_share = 0;   // of it, by sums of parts of K: above 1 where these stay in the cache
  // How much longer a benchmark finds a product that lasts, and how long is half of that: a device
  // that reaches its power limit lowers its clocks. In training `sustained` says how far.
  double heat_slow_down = 0;
  double heat_s = 0;
  friend bool operator==(const GemmFit&, const GemmFit&) = default;
};

// Operands from 16 to 8 bits.
struct CastFit {
  double share = 0;  // of the memory bandwidth
  double base_s = 0;
  double cache_gain = 1;  // times as fast where operand and result fit into the cache
  friend bool operator==(const CastFit&, const CastFit&) = default;
};

// Attention in blocks.
struct FlashFit {
  double forward_share = 0;  // of the peak, for long sequences and large heads
  double backward_share = 0;
  double sequence_ramp = 0;  // tokens
  double causal_ramp = 0;    // tokens' worth of blocks that the mask cuts
  double head_ramp = 0;      // elements of the head's size
  double wave_ramp = 0;      // waves of blocks that starting and ending cost
  friend bool operator==(const FlashFit&, const FlashFit&) = default;
};

// A protocol of a collective: base + steps x hops x latency of the links
// + bytes / (share of the bandwidth) + ramp x sqrt(bytes).
struct ProtocolFit {
  double base_s = 0;
  double hops = 0;  // latencies that a step takes
  double share = 0;
  double ramp_s = 0;  // per square root of a byte
  friend bool operator==(const ProtocolFit&, const ProtocolFit&) = default;
};

// Transfers inside a domain. `small` and `large` are the ring's protocols (of NCCL: LL and Simple),
// of which the faster one is taken.
struct LinkFit {
  ProtocolFit small, large, all_to_all;
  std::optional<ProtocolFit> in_switch;  // reductions in the switch (NVLS)
  friend bool operator==(const LinkFit&, const LinkFit&) = default;
};

// What was fitted to measurements of a type of device. Few numbers with a meaning each; they are
// stored by name, see fit_values.
struct DeviceFit {
  std::string name;                  // of the fit
  std::vector<std::string> devices;  // DeviceType::name
  std::string sources;
  double launch_s = 0;      // of any kernel
  double memory_share = 0;  // of the memory bandwidth, by kernels that only move memory
  // What clocks fall to, as a share, when a device computes for minutes and not for a benchmark.
  double sustained = 1;
  GemmFit gemm;                     // 16-bit and wider
  std::optional<GemmFit> gemm_fp8;  // none: as `gemm`
  std::optional<CastFit> cast;      // none: two kernels that only move memory
  std::map<AttentionKernel, FlashFit> flash;
  LinkFit links;
  friend bool operator==(const DeviceFit&, const DeviceFit&) = default;
};

// Every number by its name, such as "gemm.share" or "flash.flash2.forward_share". A part that may
// be missing and is has none.
std::map<std::string, double> fit_values(const DeviceFit& fit);
// Sets the number of that name, and makes the part it belongs to. False: there is no such name.
bool set_fit_value(DeviceFit& fit, std::string_view name, double value);

// What is assumed of a device that nothing was fitted for: typical numbers of the fits there are,
// the device's own matmul_share if it has one.
DeviceFit formula_fit(const DeviceType& device);

}  // namespace meshwright

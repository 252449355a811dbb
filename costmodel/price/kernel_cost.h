#pragma once

#include <cstdint>
#include <optional>

#include "costmodel/base/precision.h"
#include "costmodel/base/units.h"
#include "costmodel/cluster/cluster.h"
#include "costmodel/kernel/kernel.h"
#include "costmodel/price/device_fit.h"

namespace meshwright {

// `batch` products of [m, k] and [k, n].
struct GemmShape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  Bytes moved;  // every operand once
  friend bool operator==(const GemmShape&, const GemmShape&) = default;
};
// Of a Matmul kernel, or of an ExpertMatmul: a product for each expert, with equal numbers of rows.
GemmShape gemm_shape(const Kernel& kernel, Precision precision);

struct AttentionShape {
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0, query_size = 0, value_size = 0;
  bool causal = false;
  bool dropout = false;
  std::optional<std::int64_t> window = {};  // keys that a query sees, itself and those before it
  // Of all pairs, those that a mask shows, where keys are those of other places than the queries:
  // blocks of a sequence that several devices have. None: queries and keys are the same tokens.
  std::optional<double> seen = {};
  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};
// Of an Attention kernel.
AttentionShape attention_shape(const Kernel& kernel);

// How long kernels take on a device, alone. Without the launch, which kernel_time adds.
Seconds gemm_time(const GemmShape& shape, Precision precision, const DeviceType& device,
                  const DeviceFit& fit);
// The same with its products one behind the other, as Transformer Engine multiplies by experts:
// none fills the last wave of the one before.
Seconds one_by_one_time(const GemmShape& shape, Precision precision, const DeviceType& device,
                        const DeviceFit& fit);
// What a benchmark finds that repeats a product a few times: not the clocks of training, but lower
// ones for products that last.
Seconds benchmarked_gemm_time(const GemmShape& shape, Precision precision, const DeviceType& device,
                              const DeviceFit& fit);
Seconds flash_time(const AttentionShape& shape, Phase phase, Precision precision,
                   const DeviceType& device, const DeviceFit& fit, AttentionKernel kernel);
// Kernels that the host launches for it: one, or each product and pass over the score matrix.
std::int64_t attention_launches(const AttentionShape& shape, Phase phase, Precision precision,
                                AttentionKernel kernel);
// Megatron-LM's fused softmax takes four rows of scores a block and at most 2048 keys, else its
// parts run one by one (megatron/model/fused_softmax.py, is_kernel_available).
AttentionKernel usable_kernel(AttentionKernel wanted, const AttentionShape& shape);
// Products and passes over the score matrix one by one, each with its launch but the first.
Seconds unfused_attention_time(const AttentionShape& shape, Phase phase, Precision precision,
                               const DeviceType& device, const DeviceFit& fit,
                               AttentionKernel kernel);

// A kernel of a program, with its launch.
Seconds kernel_time(const Kernel& kernel, Precision precision, const DeviceType& device,
                    const DeviceFit& fit, AttentionKernel attention);

}  // namespace meshwright

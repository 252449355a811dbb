#pragma once

#include <cstdint>

#include "costmodel/cluster.h"
#include "costmodel/device_fit.h"
#include "costmodel/kernel.h"
#include "costmodel/precision.h"
#include "costmodel/units.h"

namespace meshwright {

// `batch` products of [m, k] and [k, n].
struct GemmShape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  Bytes moved;  // every operand once
  friend bool operator==(const GemmShape&, const GemmShape&) = default;
};
// Of a Matmul kernel.
GemmShape gemm_shape(const Kernel& kernel, Precision precision);

struct AttentionShape {
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0, query_size = 0, value_size = 0;
  bool causal = false;
  bool dropout = false;
  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};
// Of an Attention kernel.
AttentionShape attention_shape(const Kernel& kernel);

// How long kernels take on a device, alone. Without the launch, which kernel_time adds.
Seconds gemm_time(const GemmShape& shape, Precision precision, const DeviceType& device,
                  const DeviceFit& fit);
Seconds flash_time(const AttentionShape& shape, KernelPart part, Precision precision,
                   const DeviceType& device, const DeviceFit& fit, AttentionKernel kernel);
// Products and passes over the score matrix one by one, each with its launch but the first.
Seconds unfused_attention_time(const AttentionShape& shape, KernelPart part, Precision precision,
                               const DeviceType& device, const DeviceFit& fit,
                               AttentionKernel kernel);

// A kernel of a program, with its launch.
Seconds kernel_time(const Kernel& kernel, Precision precision, const DeviceType& device,
                    const DeviceFit& fit, AttentionKernel attention);

}  // namespace meshwright

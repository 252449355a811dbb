#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "costmodel/kernel/kernel.h"
#include "costmodel/profile/profile.h"

namespace meshwright {

// A kernel by what its time depends on:
//
// kind                              sizes                          variant
// Matmul                            m, n, k of the forward product
// Attention                         batch x heads, sequence        "causal 64", "full 64": the head
//                                                                  size, "192+128" if values
//                                                                  differ; then "dropout" if any
// RowSums, LayerNorm, RmsNorm,
// LossLargest, LossSums,
// gradient of Loss                  rows, columns
// Rope                              positions, rows of each, columns
// Embedding                         indices, columns; for the weight gradient also the table's
//                                   rows, with "accumulate" if it is not filled with 0 first
// Activation, GatedActivation       elements                       the function: "gelu"
// Scale, Dropout, Add, Sum          elements
// Loss                              rows
// NormLargest, NormSums             elements
// AdamW                             elements                       "master" with fp32 copies
// ClipFactor                        1
//
// The elementwise kinds have the variant "strided" (after the function's name) if an operand has
// gaps or repeats. What else a kernel may have (bias, addend, accumulation of a product) is taken
// to cost nothing.
struct ShapedKernel {
  KernelClass kernel;
  std::vector<std::int64_t> shape;
  friend bool operator==(const ShapedKernel&, const ShapedKernel&) = default;
};

// None: not a kernel that is measured (Load, attention with a window, ALiBi, or keys that are
// not as many as the queries).
std::optional<ShapedKernel> shape_of(const Kernel& kernel);

// A kernel of that class and shape, with dense operands (for Add "strided": a row is added to every
// row). Gives the shape back: shape_of(kernel_with(k)) == k. None: there is no such kernel.
std::optional<Kernel> kernel_with(const ShapedKernel& shaped);

}  // namespace meshwright

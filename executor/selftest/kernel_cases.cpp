#include "executor/selftest/kernel_cases.h"

#include <cassert>
#include <set>

#include "costmodel/profile/kernel_shape.h"
#include "executor/benchmark/items.h"

namespace meshwright {

std::vector<Kernel> kernel_cases(const std::array<std::int64_t, 3>& sizes) {
  std::vector<Kernel> kernels;
  std::set<KernelClass> seen;
  for (const BenchmarkItem& item : benchmark_items({.quick = false, .devices = 1})) {
    const auto* timed = std::get_if<KernelItem>(&item);
    if (!timed || !seen.insert(timed->shaped.kernel).second) continue;
    ShapedKernel shaped = timed->shaped;
    for (std::size_t i = 0; i < shaped.shape.size(); ++i) shaped.shape[i] = sizes[i];
    if (shaped.kernel.variant == "strided") shaped.shape = {512};
    if (shaped.kernel.kind == KernelKind::ClipFactor) shaped.shape = {1};
    const auto kernel = kernel_with(shaped);
    assert(kernel);
    kernels.push_back(*kernel);
  }
  return kernels;
}

double ordinary_number(const Kernel& kernel, std::size_t operand, std::size_t element) {
  if (kernel.operands[operand].element == BufferElement::Index) {
    // From -2, which is no label, to beyond a small table.
    return static_cast<double>(element * 5 % 11) - 2;
  }
  // Seven bits.
  const double value = static_cast<double>(6 + (element * 7919 + operand * 104729) % 119) / 128;
  if (kernel.operands[operand].element == BufferElement::Double) return value + 1;
  const bool positive = kernel.kind == KernelKind::Loss || kernel.kind == KernelKind::AdamW;
  return positive || element % 3 != 0 ? value : -value;
}

}  // namespace meshwright

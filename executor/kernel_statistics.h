#pragma once

#include <cstddef>
#include <vector>

#include "costmodel/kernel/kernel.h"

namespace meshwright {

// Operands that are one number, or two, for each row. Where elements have 16 bits these have 32.
inline std::vector<std::size_t> statistics_of(const Kernel& kernel) {
  const bool forward = kernel.phase == Phase::Forward;
  switch (kernel.kind) {
    case KernelKind::LayerNorm:
      if (forward) return {kernel.operands.size() - 2, kernel.operands.size() - 1};
      return kernel.phase == Phase::InputGradient ? std::vector<std::size_t>{2, 3}
                                                  : std::vector<std::size_t>{1, 2};
    case KernelKind::RmsNorm:
      if (forward) return {kernel.operands.size() - 1};
      return kernel.phase == Phase::InputGradient ? std::vector<std::size_t>{2}
                                                  : std::vector<std::size_t>{1};
    case KernelKind::RowSums: {
      if (forward) return {};
      const std::size_t last = kernel.operands.size() - 1;
      return last == 5 ? std::vector<std::size_t>{2, 3} : std::vector<std::size_t>{2};
    }
    case KernelKind::Attention:
      return {4};
    case KernelKind::LossLargest:
      return {1};
    case KernelKind::LossSums:
      return {2, 3};
    case KernelKind::Loss:
      return forward ? std::vector<std::size_t>{1, 2} : std::vector<std::size_t>{2, 3};
    default:
      return {};
  }
}

}  // namespace meshwright

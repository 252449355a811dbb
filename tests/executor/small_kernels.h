#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "costmodel/profile/kernel_shape.h"
#include "executor/selftest/kernel_cases.h"

namespace meshwright {

// Elements from the start of an operand's buffer to its last one.
inline std::int64_t extent_of(const Operand& operand) {
  std::int64_t last = operand.offset;
  for (std::size_t d = 0; d < operand.sizes.size(); ++d) {
    if (operand.sizes[d] == 0) return 0;
    last += (operand.sizes[d] - 1) * operand.strides[d];
  }
  return last + 1;
}

// Memory of a kernel's operands.
template <class Real>
struct KernelMemory {
  std::vector<std::vector<double>> words;  // enough room for any element
  std::vector<std::byte*> buffers;

  explicit KernelMemory(const Kernel& kernel) {
    for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
      const Operand& operand = kernel.operands[i];
      const auto count = static_cast<std::size_t>(extent_of(operand));
      words.emplace_back(count + 1);
      for (std::size_t k = 0; k < count; ++k) {
        put(operand.element, i, k, ordinary_number(kernel, i, k));
      }
    }
    for (auto& operand : words) buffers.push_back(reinterpret_cast<std::byte*>(operand.data()));
  }
  void put(BufferElement element, std::size_t operand, std::size_t k, double value) {
    double* const to = words[operand].data();
    if (element == BufferElement::Index) {
      reinterpret_cast<std::int32_t*>(to)[k] = static_cast<std::int32_t>(value);
    } else if (element == BufferElement::Double) {
      to[k] = value;
    } else {
      reinterpret_cast<Real*>(to)[k] = static_cast<Real>(value);
    }
  }
  double get(const Operand& operand, std::size_t i, std::size_t k) const {
    const double* const from = words[i].data();
    if (operand.element == BufferElement::Double) return from[k];
    return static_cast<double>(reinterpret_cast<const Real*>(from)[k]);
  }
};

// The largest difference between two results of a kernel, by 1 and the expected one.
template <class Real>
double largest_difference(const Kernel& kernel, const KernelMemory<Real>& expected,
                          const KernelMemory<Real>& found) {
  double most = 0;
  for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
    for (std::int64_t k = 0; k < extent_of(kernel.operands[i]); ++k) {
      const double a = expected.get(kernel.operands[i], i, static_cast<std::size_t>(k));
      const double b = found.get(kernel.operands[i], i, static_cast<std::size_t>(k));
      most = std::max(most, std::abs(a - b) / (1 + std::abs(a)));
      if (std::isnan(a) != std::isnan(b)) return 1e300;
    }
  }
  return most;
}

}  // namespace meshwright

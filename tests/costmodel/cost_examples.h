#pragma once

#include <catch2/catch.hpp>

#include "costmodel/kernel/kernel.h"

namespace meshwright {

// Of seconds that arithmetic gives: equal but for rounding.
inline auto near(double seconds) { return Approx(seconds).epsilon(1e-12).margin(0); }

inline Kernel addition(std::int64_t count) {
  return {.kind = KernelKind::Add,
          .operands = {dense_operand({count}), dense_operand({count}), dense_operand({count})}};
}

}  // namespace meshwright

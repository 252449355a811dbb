#pragma once

#include <cstdint>
#include <cstring>

#include "executor/host_device.h"

// Numbers of 16 bits. They are only stored: what is loaded is widened to fp32, which is exact, and
// what is stored is rounded to nearest, ties to even.
namespace meshwright {

// The upper half of an fp32 number.
struct BFloat16 {
  std::uint16_t bits;

  BFloat16() = default;
  MESHWRIGHT_HD explicit BFloat16(float value) {
    std::uint32_t wide;
    std::memcpy(&wide, &value, sizeof wide);
    // Half of the last place that stays, or just less than it where that place is even. A NaN
    // keeps its upper bits and must not become infinite.
    const std::uint32_t half = 0x7fffu + (wide >> 16 & 1u);
    const bool number = value == value;
    bits = static_cast<std::uint16_t>(number ? (wide + half) >> 16 : wide >> 16 | 0x40u);
  }
  MESHWRIGHT_HD operator float() const {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
};

// IEEE 754 binary16. GPU code has a type of its own for it.
#ifndef __CUDACC__
using Float16 = _Float16;
#endif

// What numbers of a type are computed in.
template <class Stored>
struct Widened {
  using Type = Stored;
};
template <>
struct Widened<BFloat16> {
  using Type = float;
};
#ifndef __CUDACC__
template <>
struct Widened<Float16> {
  using Type = float;
};
#endif
template <class Stored>
using WideOf = typename Widened<Stored>::Type;

}  // namespace meshwright

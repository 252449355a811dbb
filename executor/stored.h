#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "costmodel/kernel/kernel.h"
#include "executor/half.h"

namespace meshwright {

// Calls use(T()) with the type T that memory holds an element as. Not for bytes, which only their
// kernel understands, nor for precisions that no memory of ours holds.
template <class Use>
auto with_stored(BufferElement element, Precision precision, Use use) {
  if (element == BufferElement::Index) return use(std::int32_t());
  if (element == BufferElement::Double) return use(double());
  if (element == BufferElement::Single) return use(float());
  if (element == BufferElement::Real && precision == Precision::FP64) return use(double());
  if (element == BufferElement::Real && precision == Precision::FP32) return use(float());
  if (element == BufferElement::Real && precision == Precision::BF16) return use(BFloat16());
  if (element == BufferElement::Real && precision == Precision::FP16) return use(Float16());
  throw std::logic_error("memory holds no such numbers as those of " +
                         std::string(to_text(precision)));
}

// A number as memory holds it: 16-bit ones are those of the fp32 number.
template <class Stored>
Stored stored(double value) {
  return static_cast<Stored>(static_cast<WideOf<Stored>>(value));
}

}  // namespace meshwright

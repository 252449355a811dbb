#include "executor/finite.h"

#include <cassert>
#include <cmath>

#include "executor/kernel_call.h"

namespace meshwright {
namespace {

template <class Number>
bool all_finite(const Operand& operand, const std::byte* buffer) {
  const auto* numbers = reinterpret_cast<const Number*>(buffer) + operand.offset;
  const Places places(operand.sizes, operand.strides);
  for (std::int64_t i = 0; i < places.count(); ++i) {
    if (!std::isfinite(numbers[places[i]])) return false;
  }
  return true;
}

}  // namespace

bool is_finite(const Operand& operand, const std::byte* buffer, Precision precision) {
  switch (operand.element) {
    case BufferElement::Index:
    case BufferElement::Byte:
      return true;
    default:
      break;
  }
  const Bytes width = bytes_per_element(operand.element, precision);
  assert(width == 4_B || width == 8_B);  // the CPU has no kernels for others
  return width == 8_B ? all_finite<double>(operand, buffer) : all_finite<float>(operand, buffer);
}

}  // namespace meshwright

#include "executor/finite.h"

#include <cmath>

#include "executor/kernel_call.h"
#include "executor/stored.h"

namespace meshwright {
namespace {

template <class Number>
bool all_finite(const Operand& operand, const std::byte* buffer) {
  const auto* numbers = reinterpret_cast<const Number*>(buffer) + operand.offset;
  const Places places(operand.sizes, operand.strides);
  for (std::int64_t i = 0; i < places.count(); ++i) {
    if (!std::isfinite(static_cast<double>(numbers[places[i]]))) return false;
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
  return with_stored(operand.element, precision,
                     [&](auto type) { return all_finite<decltype(type)>(operand, buffer); });
}

}  // namespace meshwright

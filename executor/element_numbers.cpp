#include "executor/element_numbers.h"

#include <cassert>

namespace meshwright {
namespace {

// Calls use(a null pointer to the type that an element has in memory).
template <class Use>
auto with_type(BufferElement element, Precision precision, Use use) {
  assert(element != BufferElement::Byte);
  if (element == BufferElement::Index) return use(static_cast<std::int32_t*>(nullptr));
  const Bytes width = bytes_per_element(element, precision);
  assert(width == 4_B || width == 8_B);
  if (width == 8_B) return use(static_cast<double*>(nullptr));
  return use(static_cast<float*>(nullptr));
}

}  // namespace

std::vector<double> numbers_of(std::span<const std::byte> memory, BufferElement element,
                               Precision precision) {
  return with_type(element, precision, [&]<class Number>(Number*) {
    const auto* numbers = reinterpret_cast<const Number*>(memory.data());
    return std::vector<double>(numbers, numbers + memory.size() / sizeof(Number));
  });
}

void set_number(std::span<std::byte> memory, std::int64_t index, double value,
                BufferElement element, Precision precision) {
  with_type(element, precision, [&]<class Number>(Number*) {
    reinterpret_cast<Number*>(memory.data())[index] = static_cast<Number>(value);
  });
}

}  // namespace meshwright

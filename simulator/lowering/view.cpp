#include "simulator/lowering/view.h"

#include <cassert>

#include "costmodel/checked.h"

namespace meshwright {

std::int64_t product_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) product = checked_multiply(product, size);
  return product;
}

Operand as_matrix(const Operand& operand, std::size_t columns) {
  const auto split = operand.sizes.end() - static_cast<std::ptrdiff_t>(columns);
  Operand matrix = dense_operand(
      {product_of({operand.sizes.begin(), split}), product_of({split, operand.sizes.end()})},
      operand.element, operand.offset);
  assert(operand.strides == dense_operand(operand.sizes).strides);
  return matrix;
}

Operand as_row(const Operand& operand) {
  return dense_operand({product_of(operand.sizes)}, operand.element, operand.offset);
}

Operand as_heads(const Operand& operand) {
  Operand heads = operand;
  while (heads.sizes.size() > 4) {
    assert(heads.strides[2] == heads.sizes[3] * heads.strides[3]);
    heads.sizes[2] *= heads.sizes[3];
    heads.strides[2] = heads.strides[3];
    heads.sizes.erase(heads.sizes.begin() + 3);
    heads.strides.erase(heads.strides.begin() + 3);
  }
  return heads;
}

}  // namespace meshwright

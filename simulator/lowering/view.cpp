#include "simulator/lowering/view.h"

#include <cassert>

#include "costmodel/base/checked.h"

namespace meshwright {

Operand range(std::int64_t offset, std::int64_t count, BufferElement element, bool written) {
  Operand operand = dense_operand({count}, element, offset);
  operand.written = written;
  return operand;
}

Operand as_matrix(const Operand& operand, std::size_t columns) {
  const auto split = operand.sizes.end() - static_cast<std::ptrdiff_t>(columns);
  Operand matrix = dense_operand({checked_product(std::span(operand.sizes.begin(), split)),
                                  checked_product(std::span(split, operand.sizes.end()))},
                                 operand.element, operand.offset);
  assert(operand.strides == dense_operand(operand.sizes).strides);
  return matrix;
}

Operand as_rows(const Operand& operand, std::int64_t columns) {
  return dense_operand({element_count(operand) / columns, columns}, operand.element,
                       operand.offset);
}

Operand as_row(const Operand& operand) {
  return dense_operand({checked_product(operand.sizes)}, operand.element, operand.offset);
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

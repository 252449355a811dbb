#include "simulator/lowering/view.h"

#include <algorithm>
#include <cassert>

#include "costmodel/base/checked.h"

namespace meshwright {

View slice_of(View view, std::size_t dim, const ShardRange& range) {
  view.operand.offset += range.start * view.operand.strides[dim];
  view.operand.sizes[dim] = range.size;
  return view;
}

Operand range(std::int64_t offset, std::int64_t count, BufferElement element, bool written) {
  Operand operand = dense_operand({count}, element, offset);
  operand.written = written;
  return operand;
}

namespace {

// Whether the places of some dimensions follow each other at equal distances.
[[maybe_unused]] bool is_even(const Operand& operand, std::size_t first, std::size_t end) {
  for (std::size_t i = first; i + 1 < end; ++i) {
    if (operand.strides[i] != operand.strides[i + 1] * operand.sizes[i + 1]) return false;
  }
  return true;
}

}  // namespace

Operand as_matrix(const Operand& operand, std::size_t columns) {
  const std::size_t rows = operand.sizes.size() - columns;
  const auto split = operand.sizes.begin() + static_cast<std::ptrdiff_t>(rows);
  Operand matrix = dense_operand({checked_product(std::span(operand.sizes.begin(), split)),
                                  checked_product(std::span(split, operand.sizes.end()))},
                                 operand.element, operand.offset);
  assert(is_even(operand, 0, rows) && is_even(operand, rows, operand.sizes.size()));
  if (rows > 0) matrix.strides[0] = operand.strides[rows - 1];
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

Operand repeated(const Operand& own, const std::vector<DimId>& have, const std::vector<DimId>& want,
                 const Operand& shape) {
  Operand result = shape;
  result.offset = own.offset;
  result.element = own.element;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto found = std::ranges::find(have, want[i]);
    result.strides[i] =
        found == have.end() ? 0 : own.strides[static_cast<std::size_t>(found - have.begin())];
  }
  return result;
}

}  // namespace meshwright

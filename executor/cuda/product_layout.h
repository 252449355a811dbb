#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "costmodel/kernel/kernel.h"
#include "executor/kernel_call.h"

namespace meshwright::cuda {

// A matrix as a BLAS has it: column by column, `stride` from column to column, used as it is or as
// its transpose.
struct BlasMatrix {
  std::size_t operand = 0;  // of the kernel, whose memory it is
  std::int64_t rows = 0, columns = 0, stride = 0;
  bool transposed = false;
  friend bool operator==(const BlasMatrix&, const BlasMatrix&) = default;
};

// result = first * second. Kernels have their matrices row by row, so this is the transpose of
// what they compute.
struct ProductLayout {
  BlasMatrix first, second, result;
  friend bool operator==(const ProductLayout&, const ProductLayout&) = default;
};

namespace product {

// An operand as a matrix of the kernel.
struct View {
  std::size_t operand;
  std::int64_t rows, columns, row_step, column_step;
  View flipped() const { return {operand, columns, rows, column_step, row_step}; }
};

// All dimensions but the last are rows; none: they have gaps.
inline std::optional<View> view_of(const Kernel& kernel, std::size_t i) {
  const Operand& o = kernel.operands[i];
  if (o.sizes.empty()) return {};
  const std::size_t outer = o.sizes.size() - 1;
  const Places rows({o.sizes.data(), outer}, {o.strides.data(), outer});
  if (!rows.even()) return {};
  return View{i, rows.count(), o.sizes.back(), rows.stride(), o.strides.back()};
}

inline bool lies_by_row(const View& view) { return view.column_step == 1; }

// The transpose of a view.
inline BlasMatrix transpose_of(const View& view) {
  if (lies_by_row(view)) return {view.operand, view.columns, view.rows, view.row_step, false};
  return {view.operand, view.rows, view.columns, view.column_step, true};
}

}  // namespace product

// Of a product without bias or addend. None: there is no such product, or a matrix has gaps in
// both directions, or the result does not lie row by row.
inline std::optional<ProductLayout> product_layout(const Kernel& kernel) {
  using product::view_of;
  if (kernel.kind != KernelKind::Matmul || kernel.operands.size() != 3) return {};
  auto a = view_of(kernel, kernel.part == KernelPart::InputGradient ? 1 : 0);
  auto b = view_of(kernel, kernel.part == KernelPart::InputGradient ? 0 : 1);
  const auto result = view_of(kernel, 2);
  if (!a || !b || !result || !product::lies_by_row(*result)) return {};
  if (kernel.part == KernelPart::InputGradient) b = b->flipped();
  if (kernel.part == KernelPart::WeightGradient) a = a->flipped();
  for (const auto& view : {*a, *b}) {
    if (view.column_step != 1 && view.row_step != 1) return {};
  }
  return ProductLayout{product::transpose_of(*b), product::transpose_of(*a),
                       product::transpose_of(*result)};
}

// The same product with operands that lie as 8-bit products want them: along the dimension that is
// summed over. Training software keeps such copies.
inline ProductLayout along_the_sum(ProductLayout layout) {
  const std::int64_t inner = layout.first.transposed ? layout.first.rows : layout.first.columns;
  const std::int64_t m = layout.result.rows, n = layout.result.columns;
  layout.first = {layout.first.operand, inner, m, inner, true};
  layout.second = {layout.second.operand, inner, n, inner, false};
  return layout;
}

}  // namespace meshwright::cuda

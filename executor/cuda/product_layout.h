#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "costmodel/kernel/kernel.h"
#include "executor/kernel_call.h"

namespace meshwright::cuda {

// A matrix as a BLAS has it: column by column, `stride` from column to column,
// used as it is or as its transpose.
struct BlasMatrix {
  std::size_t operand = 0;  // of the kernel, whose memory it is
  std::int64_t rows = 0, columns = 0, stride = 0;
  bool transposed = false;
  friend bool operator==(const BlasMatrix&, const BlasMatrix&) = default;
};

// result = first * second. Kernels have their matrices row by row, so this is
// the transpose of what they compute.
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
  // A single column lies side by side, whatever its stride.
  const std::int64_t step = o.sizes.back() == 1 ? 1 : o.strides.back();
  return View{i, rows.count(), o.sizes.back(), rows.stride(), step};
}

inline bool lies_by_row(const View& view) { return view.column_step == 1; }

// From column to column; what has one only may say anything.
inline std::int64_t stride_of(std::int64_t stride, std::int64_t rows) {
  return stride < rows ? rows : stride;
}

// The transpose of a view.
inline BlasMatrix transpose_of(const View& view) {
  if (lies_by_row(view)) {
    return {view.operand, view.columns, view.rows, stride_of(view.row_step, view.columns), false};
  }
  return {view.operand, view.rows, view.columns, stride_of(view.column_step, view.rows), true};
}

// result = a * b. A result that lies column by column is computed as its
// transpose.
inline std::optional<ProductLayout> layout_of(View a, View b, View result) {
  if (!lies_by_row(result)) {
    result = result.flipped();
    std::swap(a, b);
    a = a.flipped();
    b = b.flipped();
  }
  if (!lies_by_row(result)) return {};
  for (const View& view : {a, b}) {
    if (view.column_step != 1 && view.row_step != 1) return {};
  }
  return ProductLayout{transpose_of(b), transpose_of(a), transpose_of(result)};
}

}  // namespace product

// The operands of a Matmul: of the two factors in the kernel's order, of the
// result, and of what stands beside them.
struct ProductOperands {
  std::size_t first = 0, second = 1, result = 2;
  std::optional<std::size_t> bias;    // of a forward, or of a weight's gradient
  std::optional<std::size_t> addend;  // of an input's gradient
};
inline ProductOperands product_operands(const Kernel& kernel) {
  const std::size_t last = kernel.operands.size() - 1;
  const bool four = kernel.operands.size() == 4;
  if (kernel.phase == Phase::InputGradient) {
    return {.first = 1,
            .second = 0,
            .result = last,
            .addend = four ? std::optional<std::size_t>(2) : std::nullopt};
  }
  const bool forward = kernel.phase == Phase::Forward;
  return {.result = four && !forward ? 2 : last,
          .bias = four ? std::optional<std::size_t>(forward ? 2 : 3) : std::nullopt};
}

// None: there is no such product, or a matrix has gaps in both directions.
inline std::optional<ProductLayout> product_layout(const Kernel& kernel) {
  using product::view_of;
  if (kernel.kind != KernelKind::Matmul || kernel.operands.size() < 3) return {};
  const ProductOperands operands = product_operands(kernel);
  auto a = view_of(kernel, operands.first), b = view_of(kernel, operands.second);
  auto result = view_of(kernel, operands.result);
  if (!a || !b || !result) return {};
  if (kernel.phase == Phase::InputGradient) b = b->flipped();
  if (kernel.phase == Phase::WeightGradient) a = a->flipped();
  return product::layout_of(*a, *b, *result);
}

// The same product with operands that lie as 8-bit products want them: along
// the dimension that is summed over. Training software keeps such copies.
inline ProductLayout along_the_sum(ProductLayout layout) {
  const std::int64_t inner = layout.first.transposed ? layout.first.rows : layout.first.columns;
  const std::int64_t m = layout.result.rows, n = layout.result.columns;
  layout.first = {layout.first.operand, inner, m, inner, true};
  layout.second = {layout.second.operand, inner, n, inner, false};
  return layout;
}

}  // namespace meshwright::cuda

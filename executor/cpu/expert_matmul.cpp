#include <algorithm>
#include <cassert>

#include "executor/cpu/blas.h"
#include "executor/cpu/kernels.h"

namespace meshwright {
namespace {

// [k, n] of one expert, stored so or as its transpose.
template <class Real>
Matrix<Real> expert_matrix(const KernelCall& call, std::size_t i, std::int64_t expert) {
  const Operand& o = call.operand(i);
  assert(o.sizes.size() == 3);
  const std::int64_t k = o.sizes[1], n = o.sizes[2];
  Real* data = call.data<Real>(i) + expert * o.strides[0];
  if (o.strides[2] == 1 && (k == 1 || o.strides[1] >= n)) return {data, k, n, o.strides[1]};
  assert(o.strides[1] == 1 || k == 1);
  return {data, k, n, o.strides[2], true};
}

template <class Real>
Matrix<Real> rows_from(const Rows<Real>& rows, std::int64_t first, std::int64_t count) {
  return {rows.data + first * rows.columns, count, rows.columns, rows.columns};
}

// Calls with every expert, its first row and the number of its rows.
template <class Multiply>
void for_each_expert(const KernelCall& call, std::size_t counts, const Multiply& multiply_expert) {
  const auto by_sender = call.elements<const std::int32_t>(counts);
  const std::int64_t senders = call.operand(counts).sizes[0];
  const std::int64_t experts = call.operand(counts).sizes[1];
  std::int64_t first = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    std::int64_t rows = 0;
    for (std::int64_t s = 0; s < senders; ++s) rows += by_sender[s * experts + e];
    multiply_expert(e, first, rows);
    first += rows;
  }
}

}  // namespace

template <class Real>
void expert_matmul_forward(const KernelCall& call) {
  const auto x = call.dense_rows<const Real>(0);
  const auto y = call.dense_rows<Real>(3);
  for_each_expert(call, 2, [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
    if (rows == 0) return;
    multiply(Real(1), rows_from(x, first, rows), expert_matrix<const Real>(call, 1, expert),
             Real(0), rows_from(y, first, rows));
  });
}

template <class Real>
void expert_matmul_input_gradient(const KernelCall& call) {
  const bool has_addend = call.kernel.has_addend;
  const auto dy = call.dense_rows<const Real>(1);
  const auto dx = call.dense_rows<Real>(has_addend ? 4 : 3);
  for_each_expert(call, 2, [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
    if (rows == 0) return;
    if (has_addend) {
      const auto known = call.dense_rows<const Real>(3);
      std::copy_n(known.data + first * dx.columns, rows * dx.columns, dx.data + first * dx.columns);
    }
    multiply(Real(1), rows_from(dy, first, rows),
             expert_matrix<const Real>(call, 0, expert).flipped(), Real(has_addend ? 1 : 0),
             rows_from(dx, first, rows));
  });
}

template <class Real>
void expert_matmul_weight_gradient(const KernelCall& call) {
  const auto x = call.dense_rows<const Real>(0);
  const auto dy = call.dense_rows<const Real>(1);
  const bool adds = call.kernel.accumulate;
  for_each_expert(call, 2, [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
    const Matrix<Real> dw = expert_matrix<Real>(call, 3, expert);
    if (rows > 0) {
      return multiply(Real(1), rows_from(x, first, rows).flipped(), rows_from(dy, first, rows),
                      Real(adds ? 1 : 0), dw);
    }
    const std::int64_t outer = dw.transposed ? dw.columns : dw.rows;
    const std::int64_t inner = dw.transposed ? dw.rows : dw.columns;
    for (std::int64_t i = 0; i < outer && !adds; ++i) {
      std::fill_n(dw.data + i * dw.stride, inner, Real(0));
    }
  });
}

template void expert_matmul_forward<float>(const KernelCall&);
template void expert_matmul_forward<double>(const KernelCall&);
template void expert_matmul_input_gradient<float>(const KernelCall&);
template void expert_matmul_input_gradient<double>(const KernelCall&);
template void expert_matmul_weight_gradient<float>(const KernelCall&);
template void expert_matmul_weight_gradient<double>(const KernelCall&);

}  // namespace meshwright

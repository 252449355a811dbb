#include <algorithm>
#include <cassert>
#include <cstring>

#include "executor/cpu/blas.h"
#include "executor/cpu/kernels.h"

namespace meshwright {
namespace {

template <class Real>
Matrix<Real> row_matrix(const Rows<Real>& rows) {
  assert(rows.places.even() || rows.count() <= 1);
  return {rows.data, rows.count(), rows.columns, rows.places.stride()};
}

// [k, n], stored so or as its transpose.
template <class Real>
Matrix<Real> weight_matrix(const KernelCall& call, std::size_t i) {
  const Operand& o = call.operand(i);
  assert(o.sizes.size() == 2);
  const std::int64_t k = o.sizes[0], n = o.sizes[1];
  Real* data = call.data<Real>(i);
  if (o.strides[1] == 1 && (k == 1 || o.strides[0] >= n)) return {data, k, n, o.strides[0]};
  assert(o.strides[0] == 1 || k == 1);
  return {data, k, n, o.strides[1], true};
}

template <class Real>
void copy_rows(const Rows<const Real>& from, const Rows<Real>& to) {
  if (from.data == to.data) return;
  for (std::int64_t r = 0; r < to.count(); ++r) {
    std::memcpy(to[r], from[r], sizeof(Real) * static_cast<std::size_t>(to.columns));
  }
}

template <class Real>
void add_column_sums(const Rows<const Real>& rows, bool accumulate, std::span<Real> sums) {
  if (!accumulate) std::ranges::fill(sums, Real(0));
  for (std::int64_t r = 0; r < rows.count(); ++r) {
    const Real* row = rows[r];
    for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += row[c];
  }
}

}  // namespace

template <class Real>
void matmul_forward(const KernelCall& call) {
  const bool has_bias = call.operand_count() == 4;
  const auto x = call.dense_rows<const Real>(0);
  const auto y = call.dense_rows<Real>(has_bias ? 3 : 2);
  const bool adds = call.kernel.accumulate;
  if (has_bias) {
    const auto bias = call.vector<const Real>(2);
    for (std::int64_t r = 0; r < y.count(); ++r) {
      if (adds) {
        for (std::size_t c = 0; c < bias.size(); ++c) y[r][c] += bias[c];
      } else {
        std::ranges::copy(bias, y[r]);
      }
    }
  }
  multiply(Real(1), row_matrix(x), weight_matrix<const Real>(call, 1),
           Real(has_bias || adds ? 1 : 0), row_matrix(y));
}

template <class Real>
void matmul_input_gradient(const KernelCall& call) {
  const bool has_addend = call.kernel.has_addend;
  const auto dy = call.dense_rows<const Real>(1);
  const auto dx = call.dense_rows<Real>(has_addend ? 3 : 2);
  if (has_addend) copy_rows(call.dense_rows<const Real>(2), dx);
  multiply(Real(1), row_matrix(dy), weight_matrix<const Real>(call, 0).flipped(),
           Real(has_addend ? 1 : 0), row_matrix(dx));
}

template <class Real>
void matmul_weight_gradient(const KernelCall& call) {
  const auto x = call.dense_rows<const Real>(0);
  const auto dy = call.dense_rows<const Real>(1);
  multiply(Real(1), row_matrix(x).flipped(), row_matrix(dy), Real(call.kernel.accumulate ? 1 : 0),
           weight_matrix<Real>(call, 2));
  if (call.operand_count() == 4) {
    add_column_sums(dy, call.kernel.accumulate, call.vector<Real>(3));
  }
}

template void matmul_forward<float>(const KernelCall&);
template void matmul_forward<double>(const KernelCall&);
template void matmul_input_gradient<float>(const KernelCall&);
template void matmul_input_gradient<double>(const KernelCall&);
template void matmul_weight_gradient<float>(const KernelCall&);
template void matmul_weight_gradient<double>(const KernelCall&);

}  // namespace meshwright

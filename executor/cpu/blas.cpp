#include "executor/cpu/blas.h"

#include <cblas.h>

#include <algorithm>
#include <cassert>

namespace meshwright {
namespace {

template <class Real>
CBLAS_TRANSPOSE order_of(const Matrix<Real>& matrix) {
  return matrix.transposed ? CblasTrans : CblasNoTrans;
}

// The BLAS wants a stride no smaller than a stored row, even where there is only one row.
template <class Real>
blasint stride_of(const Matrix<Real>& matrix) {
  const std::int64_t row = matrix.transposed ? matrix.rows : matrix.columns;
  return static_cast<blasint>(std::max({matrix.stride, row, std::int64_t{1}}));
}

void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k, float alpha,
          const float* a, blasint lda, const float* b, blasint ldb, float beta, float* c,
          blasint ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k, double alpha,
          const double* a, blasint lda, const double* b, blasint ldb, double beta, double* c,
          blasint ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// Devices are the threads; a BLAS that starts its own would only take their cores.
bool limit_blas_threads() {
  openblas_set_num_threads(1);
  return true;
}

}  // namespace

template <class Real>
void multiply(Real factor, Matrix<const Real> a, Matrix<const Real> b, Real keep,
              Matrix<Real> result) {
  static const bool limited = limit_blas_threads();
  assert(limited && a.columns == b.rows && result.rows == a.rows && result.columns == b.columns);
  (void)limited;
  if (result.transposed) {
    return multiply(factor, b.flipped(), a.flipped(), keep, result.flipped());
  }
  gemm(order_of(a), order_of(b), static_cast<blasint>(a.rows), static_cast<blasint>(b.columns),
       static_cast<blasint>(a.columns), factor, a.data, stride_of(a), b.data, stride_of(b), keep,
       result.data, stride_of(result));
}

template void multiply(float, Matrix<const float>, Matrix<const float>, float, Matrix<float>);
template void multiply(double, Matrix<const double>, Matrix<const double>, double, Matrix<double>);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <string>

namespace meshwright {

// A matrix of the BLAS: row-major with `stride` from row to row, or the transpose of one.
template <class Real>
struct Matrix {
  Real* data;
  std::int64_t rows, columns;
  std::int64_t stride;
  bool transposed = false;  // element (i, j) is at j * stride + i

  Matrix flipped() const { return {data, columns, rows, stride, !transposed}; }
};

// result = factor * a * b + keep * result, in this thread. With keep 0 the result may hold
// anything before.
template <class Real>
void multiply(Real factor, Matrix<const Real> a, Matrix<const Real> b, Real keep,
              Matrix<Real> result);

// The library and its version, as it calls itself: "OpenBLAS 0.3.21 ... Haswell".
std::string blas_name();
// The kernels it computes with, by the processor they were written for: "SkylakeX".
std::string blas_kernels();

}  // namespace meshwright

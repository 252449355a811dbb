#include "executor/cpu/blas.h"

#include <cblas.h>
#include <dlfcn.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <string>

#include "executor/cpu/blas_kernels.h"
#include "executor/environment_error.h"

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

// The BLAS is loaded when the first product is computed, not linked: only training needs it, and it
// reads how many threads it may start when it is loaded. Devices are the threads here; a pool of
// its own would take their cores, and with little memory never come to an end.
struct Blas {
  decltype(&cblas_sgemm) sgemm;
  decltype(&cblas_dgemm) dgemm;
  std::string name, kernels;
};

void* find_symbol(void* library, const char* name) {
  void* symbol = ::dlsym(library, name);
  if (!symbol) throw EnvironmentError(std::string("libopenblas.so.0 has no ") + name);
  return symbol;
}

template <class Function>
Function* find_function(void* library, const char* name) {
  return reinterpret_cast<Function*>(find_symbol(library, name));
}

void* open_library() {
  void* library = ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library) return library;
  throw EnvironmentError(std::string("OpenBLAS cannot be loaded (package libopenblas0-pthread): ") +
                         ::dlerror());
}

std::string kernels_of(void* library) {
  return find_function<decltype(openblas_get_corename)>(library, "openblas_get_corename")();
}

// The library takes its kernels when it is loaded, so better ones need a second time. What a person
// asks for is taken.
void* open_with_best_kernels() {
  constexpr const char* kWish = "OPENBLAS_CORETYPE";
  void* library = open_library();
  const auto better = better_kernels(kernels_of(library), vectors_of_this_processor());
  if (!better || std::getenv(kWish)) return library;
  ::dlclose(library);
  ::setenv(kWish, std::string(*better).c_str(), 1);
  return open_library();
}

Blas load_blas() {
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  void* library = open_with_best_kernels();
  const std::string config =
      find_function<decltype(openblas_get_config)>(library, "openblas_get_config")();
  if (config.find("SINGLE_THREADED") != config.npos) {
    throw EnvironmentError(
        "the OpenBLAS of this machine cannot be called from several threads: install the package "
        "libopenblas0-pthread");
  }
  return {find_function<decltype(cblas_sgemm)>(library, "cblas_sgemm"),
          find_function<decltype(cblas_dgemm)>(library, "cblas_dgemm"), config,
          kernels_of(library)};
}

const Blas& blas() {
  static const Blas loaded = load_blas();
  return loaded;
}

auto gemm_for(float) { return blas().sgemm; }
auto gemm_for(double) { return blas().dgemm; }

}  // namespace

std::string blas_name() {
  std::string name = blas().name;
  while (name.ends_with(' ')) name.pop_back();
  return name;
}

std::string blas_kernels() { return blas().kernels; }

template <class Real>
void multiply(Real factor, Matrix<const Real> a, Matrix<const Real> b, Real keep,
              Matrix<Real> result) {
  assert(a.columns == b.rows && result.rows == a.rows && result.columns == b.columns);
  if (result.transposed) {
    return multiply(factor, b.flipped(), a.flipped(), keep, result.flipped());
  }
  gemm_for(Real())(CblasRowMajor, order_of(a), order_of(b), static_cast<blasint>(a.rows),
                   static_cast<blasint>(b.columns), static_cast<blasint>(a.columns), factor, a.data,
                   stride_of(a), b.data, stride_of(b), keep, result.data, stride_of(result));
}

template void multiply(float, Matrix<const float>, Matrix<const float>, float, Matrix<float>);
template void multiply(double, Matrix<const double>, Matrix<const double>, double, Matrix<double>);

}  // namespace meshwright

#pragma once

#include <cublasLt.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/standin/blas_work.h"
#include "tests/standin/machine.h"

// What cuBLASLt's descriptions say, and whether it takes it.
namespace meshwright::standin {

struct BlasLayout {
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t stride = 0, batch_step = 0;
  std::int32_t batches = 1;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
};

struct BlasDescription {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t factor = CUDA_R_32F;
  cublasOperation_t first = CUBLAS_OP_N, second = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cublasLtPointerMode_t factors_at = CUBLASLT_POINTER_MODE_HOST;
  const void* bias = nullptr;
  std::int32_t bias_type = -1;  // cuBLASLt's own: the result's
  std::int8_t fast_sums = 0;
};

struct BlasPreference {
  std::uint64_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // cuBLASLt's own, of a, b, c and d
};

struct BlasProblem {
  BlasDescription description;
  BlasLayout a, b, c, d;
};

std::optional<Number> number_of(cudaDataType_t type);
// Why cuBLASLt takes no such layout, or no such problem; empty: it does. By its documentation
// ("cublasLtMatmul" with its table of types, "cublasLtMatrixLayoutCreate").
std::string refusal_of(const BlasLayout& layout);
std::string refusal_of(const BlasProblem& problem);
// The work, without factors and data.
BlasWork work_of(const BlasProblem& problem);
// The same for the same problem.
std::uint64_t mark_of(const BlasProblem& problem);

}  // namespace meshwright::standin

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "executor/cuda/attention_graph.h"
#include "executor/cuda/cudnn_plan.h"
#include "tests/standin/standin.h"

// What the stand-ins for cuBLASLt and cuDNN compute and find.
namespace meshwright::standin {
namespace {

// A product of 4 by 6 and 6 by 5 in fp32, column by column, of which a test makes one thing wrong.
struct BlasCase {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t found{};
  cudaStream_t stream = nullptr;
  void *memory = nullptr, *workspace = nullptr;
  std::uint64_t workspace_bytes = 1 << 16;

  BlasCase() {
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(&memory, 4096);
    cudaMemsetAsync(memory, 0, 4096, stream);
    cudaMalloc(&workspace, workspace_bytes);
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, 4, 6, 4);
    cublasLtMatrixLayoutCreate(&b, CUDA_R_32F, 6, 5, 6);
    cublasLtMatrixLayoutCreate(&c, CUDA_R_32F, 4, 5, 4);
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &workspace_bytes, sizeof(workspace_bytes));
  }
  float* at(std::size_t place) const { return static_cast<float*>(memory) + place; }
  cublasStatus_t choose() {
    int count = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, description, a, b, c, c, preference, 1, &found,
                                          &count);
  }
  cublasStatus_t run(std::size_t a_at = 0, std::size_t b_at = 64, std::size_t c_at = 128) {
    return run_in(stream, a_at, b_at, c_at);
  }
  cublasStatus_t run_in(cudaStream_t where, std::size_t a_at = 0, std::size_t b_at = 64,
                        std::size_t c_at = 128) {
    const float one = 1, none = 0;
    return cublasLtMatmul(handle, description, &one, at(a_at), a, at(b_at), b, &none, at(c_at), c,
                          at(c_at), c, &found.algo, workspace, workspace_bytes, where);
  }
};

}  // namespace

TEST_CASE("a product that cuBLASLt takes is computed") {
  restart({.devices = 1});
  BlasCase product;
  std::vector<float> a(24), b(30), c(20);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7);
  cudaMemcpyAsync(product.at(0), a.data(), 96, cudaMemcpyHostToDevice, product.stream);
  cudaMemcpyAsync(product.at(64), b.data(), 120, cudaMemcpyHostToDevice, product.stream);
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.run() == CUBLAS_STATUS_SUCCESS);
  cudaMemcpyAsync(c.data(), product.at(128), 80, cudaMemcpyDeviceToHost, product.stream);
  REQUIRE(cudaStreamSynchronize(product.stream) == cudaSuccess);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < 6; ++k) sum += a[k * 4 + i] * b[j * 6 + k];
      CHECK(c[j * 4 + i] == sum);
    }
  }
  CHECK(faults().empty());
}

TEST_CASE("what cuBLASLt refuses or would do wrong is refused and named") {
  restart({.devices = 1});
  BlasCase product;
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  // Chosen for operands that are aligned to 256 bytes, as heuristics take them to be.
  CHECK(product.run(1) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(has_fault("operand a is not aligned to the 256 bytes"));
  CHECK(product.run(0, 64, 64) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(has_fault("the result overlaps an operand"));
  CHECK(product.run(0, 1024) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(has_fault("120 bytes that are not in one allocation"));
  const std::int64_t narrow = 3;
  cublasLtMatrixLayoutSetAttribute(product.a, CUBLASLT_MATRIX_LAYOUT_LD, &narrow, sizeof(narrow));
  CHECK(product.run() == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(has_fault("a leading dimension of 3 for 4 rows"));
  const std::int64_t wide = 8;
  cublasLtMatrixLayoutSetAttribute(product.a, CUBLASLT_MATRIX_LAYOUT_LD, &wide, sizeof(wide));
  CHECK(product.run() == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(has_fault("an algorithm of another problem"));
  const cublasOperation_t turned = CUBLAS_OP_T;
  cublasLtMatmulDescSetAttribute(product.description, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                 sizeof(turned));
  CHECK(product.choose() == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(product.run() == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(has_fault("4 columns by 6 rows"));
  cublasLtMatrixLayoutDestroy(product.b);
  CHECK(product.run() == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("an epilogue needs what it adds, and fp64 has none") {
  restart({.devices = 1});
  BlasCase product;
  const cublasLtEpilogue_t biased = CUBLASLT_EPILOGUE_BIAS;
  cublasLtMatmulDescSetAttribute(product.description, CUBLASLT_MATMUL_DESC_EPILOGUE, &biased,
                                 sizeof(biased));
  CHECK(product.choose() == CUBLAS_STATUS_NOT_SUPPORTED);
  void* const bias = product.at(512);
  cublasLtMatmulDescSetAttribute(product.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                 sizeof(bias));
  CHECK(product.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(product.run() == CUBLAS_STATUS_SUCCESS);
  CHECK(faults().empty());
}

TEST_CASE("a workspace that two streams use at once is found in some order") {
  int found = 0;
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    restart({.devices = 1, .seed = seed});
    BlasCase product;
    cudaStream_t other = nullptr;
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
    REQUIRE(product.run() == CUBLAS_STATUS_SUCCESS);
    REQUIRE(product.run_in(other, 0, 64, 192) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    found += has_fault("another stream wrote to its workspace");
  }
  CHECK(found > 0);
}

namespace {

using Bf16 = __nv_bfloat16;

// Attention of one head in double, of what bf16 holds.
struct PlainAttention {
  std::int64_t rows, size;
  std::vector<double> q, k, v;

  double score(std::int64_t i, std::int64_t j, double scale) const {
    double sum = 0;
    for (std::int64_t d = 0; d < size; ++d) {
      sum += q[static_cast<std::size_t>(i * size + d)] * k[static_cast<std::size_t>(j * size + d)];
    }
    return sum * scale;
  }
  std::vector<double> result(double scale) const {
    std::vector<double> y(q.size());
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j <= i; ++j) sum += std::exp(score(i, j, scale));
      for (std::int64_t j = 0; j <= i; ++j) {
        const double share = std::exp(score(i, j, scale)) / sum;
        for (std::int64_t d = 0; d < size; ++d) {
          y[static_cast<std::size_t>(i * size + d)] +=
              share * v[static_cast<std::size_t>(j * size + d)];
        }
      }
    }
    return y;
  }
};

std::vector<double> written(void* to, std::size_t count, int start, cudaStream_t stream) {
  std::vector<double> values(count);
  std::vector<Bf16> stored(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int whole = static_cast<int>((i * 37 + static_cast<std::size_t>(start)) % 17) - 8;
    stored[i] = static_cast<Bf16>(0.125f * static_cast<float>(whole));
    values[i] = static_cast<double>(static_cast<float>(stored[i]));
  }
  cudaMemcpyAsync(to, stored.data(), count * 2, cudaMemcpyHostToDevice, stream);
  return values;
}

}  // namespace

TEST_CASE("cuDNN's graph of attention is attention") {
  restart({.devices = 1});
  cudnnHandle_t handle = nullptr;
  REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudnnSetStream(handle, stream);
  const cuda::AttentionShape shape{
      .batch = 1, .heads = 1, .sequence = 5, .size = 8, .value_size = 8};
  cuda::AttentionGraph graph = cuda::attention_forward_graph(shape, 0.5f);
  const auto plan = cuda::plan_of(graph.graph, {.handle = handle, .described = {}});
  REQUIRE(plan);
  std::vector<std::int64_t> ids;
  std::vector<void*> data;
  PlainAttention plain{.rows = 5, .size = 8, .q = {}, .k = {}, .v = {}};
  for (const cuda::GraphMemory& tensor : graph.memory) {
    ids.push_back(tensor.id);
    data.push_back(nullptr);
    cudaMalloc(&data.back(), static_cast<std::size_t>(tensor.elements) * 4);
  }
  plain.q = written(data[0], 40, 1, stream);
  plain.k = written(data[1], 40, 2, stream);
  plain.v = written(data[2], 40, 3, stream);
  void* const result = data.back();
  for (cuda::GraphNumber& number : graph.numbers) {
    ids.push_back(number.id);
    data.push_back(&number.value);
  }
  void* workspace = nullptr;
  cudaMalloc(&workspace, static_cast<std::size_t>(plan->workspace));
  const cuda::Description pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<std::int64_t>(ids.size());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finish();
  REQUIRE(cudnnBackendExecute(handle, plan->description.get(), pack.get()) == CUDNN_STATUS_SUCCESS);
  std::vector<Bf16> found(40);
  cudaMemcpyAsync(found.data(), result, 80, cudaMemcpyDeviceToHost, stream);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  const auto expected = plain.result(0.5);
  for (std::size_t i = 0; i < 40; ++i) {
    // Shares and results are rounded to 8 bits each.
    CHECK(std::abs(static_cast<double>(static_cast<float>(found[i])) - expected[i]) < 0.01);
  }
  CHECK(faults().empty());
  cudnnDestroy(handle);
}

TEST_CASE("a head size that cuDNN has no kernel for gives no plan") {
  restart({.devices = 1});
  cudnnHandle_t handle = nullptr;
  REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
  const cuda::AttentionShape odd{.heads = 8, .sequence = 64, .size = 77, .value_size = 77};
  CHECK(!cuda::plan_of(cuda::attention_forward_graph(odd, 0.1f).graph,
                       {.handle = handle, .described = {}}));
  cudnnDestroy(handle);
}

}  // namespace meshwright::standin

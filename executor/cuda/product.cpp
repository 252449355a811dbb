#include "executor/cuda/product.h"

#include "executor/cuda/cuda_work.h"
#include "executor/cuda/product_layout.h"

namespace meshwright::cuda {
namespace {

// What libraries for training usually allow; Hopper's products want 32 MiB.
constexpr std::size_t kWorkspace = std::size_t{64} << 20;

struct ProductTypes {
  cudaDataType_t operand, result, factor;
  cublasComputeType_t compute;
  std::size_t operand_bytes, result_bytes;
};

ProductTypes types_of(Precision precision) {
  switch (precision) {
    case Precision::FP64:
      return {CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, 8, 8};
    case Precision::FP32:
      return {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 4, 4};
    case Precision::TF32:
      return {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 4, 4};
    case Precision::FP16:
      return {CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 2, 2};
    case Precision::BF16:
      return {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, 2, 2};
    case Precision::FP8:
      break;
  }
  return {CUDA_R_8F_E4M3, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, 1, 2};
}

// Descriptions that cuBLASLt hands out.
class MatrixDescription : public Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> {
 public:
  MatrixDescription(cudaDataType_t type, const BlasMatrix& matrix) {
    check(cublasLtMatrixLayoutCreate(place(), type, static_cast<std::uint64_t>(matrix.rows),
                                     static_cast<std::uint64_t>(matrix.columns), matrix.stride),
          "cublasLtMatrixLayoutCreate");
  }
};

class ProductDescription : public Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> {
 public:
  ProductDescription(const ProductTypes& types, const ProductLayout& layout) {
    check(cublasLtMatmulDescCreate(place(), types.compute, types.factor),
          "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, layout.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, layout.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  }
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(get(), attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
  }
};

class Preference : public Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> {
 public:
  Preference() {
    check(cublasLtMatmulPreferenceCreate(place()), "cublasLtMatmulPreferenceCreate");
    check(cublasLtMatmulPreferenceSetAttribute(get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &kWorkspace, sizeof(kWorkspace)),
          "cublasLtMatmulPreferenceSetAttribute");
  }
};

std::size_t elements_of(const BlasMatrix& matrix) {
  return static_cast<std::size_t>(matrix.columns * matrix.stride);
}

class LtProduct : public Product {
 public:
  LtProduct(const ProductLayout& layout, const Kernel& kernel, Precision precision,
            const BlasHandle& blas, cudaStream_t stream)
      : blas_(blas),
        layout_(layout),
        types_(types_of(precision)),
        accumulate_(kernel.accumulate),
        description_(types_, layout),
        first_(types_.operand, layout.first),
        second_(types_.operand, layout.second),
        result_(types_.result, layout.result),
        first_memory_(elements_of(layout.first) * types_.operand_bytes),
        second_memory_(elements_of(layout.second) * types_.operand_bytes),
        result_memory_(elements_of(layout.result) * types_.result_bytes),
        workspace_(kWorkspace) {
    // Eight-bit products may add up with fewer bits where the result is no gradient, as
    // Transformer Engine has it.
    if (precision == Precision::FP8) {
      description_.set(CUBLASLT_MATMUL_DESC_FAST_ACCUM,
                       static_cast<std::int8_t>(kernel.part == KernelPart::Forward ? 1 : 0));
    }
    const auto fill = [&](const DeviceMemory& memory, const BlasMatrix& matrix, Precision what) {
      fill_reals(memory.data(), static_cast<std::int64_t>(elements_of(matrix)), what, stream);
    };
    fill(first_memory_, layout.first, precision);
    fill(second_memory_, layout.second, precision);
    fill(result_memory_, layout.result, precision == Precision::FP8 ? Precision::BF16 : precision);
  }

  // Whether cuBLASLt has an algorithm; it is then used.
  bool choose() {
    const Preference preference;
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        blas_.get(), description_.get(), first_.get(), second_.get(), result_.get(), result_.get(),
        preference.get(), 1, &found, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
      return false;
    }
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return false;
    algorithm_ = found.algo;
    return true;
  }

  void* memory(std::size_t operand) const override {
    if (operand == layout_.first.operand) return first_memory_.data();
    if (operand == layout_.second.operand) return second_memory_.data();
    return result_memory_.data();
  }

  void launch(cudaStream_t stream) override {
    types_.factor == CUDA_R_64F ? multiply<double>(stream) : multiply<float>(stream);
  }

 private:
  template <class Factor>
  void multiply(cudaStream_t stream) {
    const Factor one = 1, keep = accumulate_ ? 1 : 0;
    check(cublasLtMatmul(blas_.get(), description_.get(), &one, first_memory_.data(), first_.get(),
                         second_memory_.data(), second_.get(), &keep, result_memory_.data(),
                         result_.get(), result_memory_.data(), result_.get(), &algorithm_,
                         workspace_.data(), kWorkspace, stream),
          "cublasLtMatmul");
  }

  const BlasHandle& blas_;
  ProductLayout layout_;
  ProductTypes types_;
  bool accumulate_;
  ProductDescription description_;
  MatrixDescription first_, second_, result_;
  DeviceMemory first_memory_, second_memory_, result_memory_, workspace_;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace

std::unique_ptr<Product> make_product(const Kernel& kernel, Precision precision,
                                      const BlasHandle& blas, cudaStream_t stream) {
  auto layout = product_layout(kernel);
  if (!layout) return {};
  if (precision == Precision::FP8) layout = along_the_sum(*layout);
  auto product = std::make_unique<LtProduct>(*layout, kernel, precision, blas, stream);
  if (!product->choose()) return {};
  return product;
}

}  // namespace meshwright::cuda

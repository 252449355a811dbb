#include "executor/cuda/product.h"

#include <cstring>

namespace meshwright::cuda {
namespace {

// What libraries for training usually allow; Hopper's products want 32 MiB.

struct ProductTypes {
  cudaDataType_t operand, result, factor;
  cublasComputeType_t compute;
};

ProductTypes types_of(Precision precision) {
  switch (precision) {
    case Precision::FP64:
      return {CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case Precision::FP32:
      return {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Precision::TF32:
      return {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
    case Precision::FP16:
      return {CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Precision::BF16:
      return {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Precision::FP8:
      break;
  }
  return {CUDA_R_8F_E4M3, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
}

// Gradients of 16-bit weights may be kept in fp32.
ProductTypes types_of(Precision precision, BufferElement result) {
  ProductTypes types = types_of(precision);
  if (result == BufferElement::Single) types.result = CUDA_R_32F;
  return types;
}

// As far as cuBLASLt cares: 256 bytes and less.
std::uint32_t alignment_of(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory) | 256;
  return static_cast<std::uint32_t>(address & (~address + 1));
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

// How operands lie in memory, as cuBLASLt's heuristics want to know it.
struct Alignments {
  std::uint32_t first = 256, second = 256, addend = 256, result = 256;
};

class Preference : public Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> {
 public:
  explicit Preference(const Alignments& alignments) {
    check(cublasLtMatmulPreferenceCreate(place()), "cublasLtMatmulPreferenceCreate");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, Products::kWorkspaceBytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments.first);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments.second);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments.addend);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments.result);
  }

 private:
  template <class Value>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulPreferenceSetAttribute(get(), attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  }
};

}  // namespace

class LtProduct {
 public:
  // `addend` is the result itself where nothing else is added.
  LtProduct(const ProductLayout& layout, const BlasMatrix& addend, const ProductTypes& types,
            bool has_bias, bool fast)
      : factor_(types.factor),
        description_(types, layout),
        first_(types.operand, layout.first),
        second_(types.operand, layout.second),
        addend_(types.result, addend),
        result_(types.result, layout.result) {
    if (has_bias) description_.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    if (fast) description_.set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  }

  // Whether cuBLASLt has an algorithm; it is then used.
  bool choose(const BlasHandle& blas, const Alignments& alignments) {
    const Preference preference(alignments);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        blas.get(), description_.get(), first_.get(), second_.get(), addend_.get(), result_.get(),
        preference.get(), 1, &found, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
      return false;
    }
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return false;
    algorithm_ = found.algo;
    return true;
  }

  struct Memory {
    const void *first, *second, *addend, *bias;
    void *result, *workspace;
  };
  void launch(const BlasHandle& blas, const Memory& memory, bool adds, cudaStream_t stream) {
    if (memory.bias != nullptr) {
      description_.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.bias);
    }
    factor_ == CUDA_R_64F ? multiply<double>(blas, memory, adds, stream)
                          : multiply<float>(blas, memory, adds, stream);
  }

 private:
  template <class Factor>
  void multiply(const BlasHandle& blas, const Memory& memory, bool adds, cudaStream_t stream) {
    const Factor one = 1, keep = adds ? 1 : 0;
    check(cublasLtMatmul(blas.get(), description_.get(), &one, memory.first, first_.get(),
                         memory.second, second_.get(), &keep, memory.addend, addend_.get(),
                         memory.result, result_.get(), &algorithm_, memory.workspace,
                         Products::kWorkspaceBytes, stream),
          "cublasLtMatmul");
  }

  cudaDataType_t factor_;
  ProductDescription description_;
  MatrixDescription first_, second_, addend_, result_;
  cublasLtMatmulAlgo_t algorithm_{};
};

Products::Products(WorkPlace& place) : place_(place), workspace_(Products::kWorkspaceBytes) {}
Products::~Products() = default;

LtProduct* Products::product_for(const Factors& factors, Precision precision) {
  const BlasMatrix addend = factors.addend_layout.value_or(factors.layout.result);
  const void* const added = factors.addend == nullptr ? factors.result : factors.addend;
  const Alignments alignments{alignment_of(factors.first), alignment_of(factors.second),
                              alignment_of(added), alignment_of(factors.result)};
  std::string key = std::to_string(static_cast<int>(precision));
  const auto add = [&](auto... numbers) { ((key += " " + std::to_string(numbers)), ...); };
  for (const BlasMatrix& m :
       {factors.layout.first, factors.layout.second, factors.layout.result, addend}) {
    add(m.rows, m.columns, m.stride, static_cast<int>(m.transposed));
  }
  add(alignments.first, alignments.second, alignments.addend, alignments.result,
      static_cast<int>(factors.bias != nullptr), static_cast<int>(factors.fast),
      static_cast<int>(factors.element));
  const auto [known, is_new] = known_.try_emplace(key);
  if (!is_new) return known->second.get();
  auto product =
      std::make_unique<LtProduct>(factors.layout, addend, types_of(precision, factors.element),
                                  factors.bias != nullptr, factors.fast);
  if (product->choose(blas_, alignments)) known->second = std::move(product);
  return known->second.get();
}

bool Products::multiply(const Factors& factors, Precision precision) {
  const ProductLayout& layout = factors.layout;
  if (layout.result.rows == 0 || layout.result.columns == 0) return true;
  if ((layout.first.transposed ? layout.first.rows : layout.first.columns) == 0) {
    if (!factors.accumulate && !prepares_) fill_zero(factors, precision);
    return true;
  }
  LtProduct* const product = product_for(factors, precision);
  if (product == nullptr || prepares_) return product != nullptr;
  const void* const added = factors.addend == nullptr ? factors.result : factors.addend;
  product->launch(
      blas_,
      {factors.first, factors.second, added, factors.bias, factors.result, workspace_.data()},
      factors.accumulate || factors.addend != nullptr, place_.stream());
  return true;
}

// Of a sum of nothing.
void Products::fill_zero(const Factors& factors, Precision precision) {
  const BlasMatrix& result = factors.layout.result;
  const auto width =
      static_cast<std::size_t>(bytes_per_element(factors.element, precision).value());
  for (std::int64_t column = 0; column < result.columns; ++column) {
    check(cudaMemsetAsync(static_cast<std::byte*>(factors.result) +
                              column * result.stride * static_cast<std::int64_t>(width),
                          0, static_cast<std::size_t>(result.rows) * width, place_.stream()),
          "cudaMemsetAsync");
  }
}

void Products::prepare(const KernelCall& call, Precision precision) {
  prepares_ = true;
  launch(call, precision);
  prepares_ = false;
}

bool Products::launch(const KernelCall& call, Precision precision) {
  return call.kernel.kind == KernelKind::ExpertMatmul ? launch_experts(call, precision)
                                                      : launch_matmul(call, precision);
}

namespace {

std::size_t width_of(BufferElement element, Precision precision) {
  if (precision == Precision::FP8) return element == BufferElement::Real ? 1 : 4;
  return static_cast<std::size_t>(bytes_per_element(element, precision).value());
}

std::byte* data_of(const KernelCall& call, std::size_t i, Precision precision) {
  const Operand& operand = call.operand(i);
  return call.buffers[i] +
         operand.offset * static_cast<std::int64_t>(width_of(operand.element, precision));
}

}  // namespace

bool Products::launch_matmul(const KernelCall& call, Precision precision) {
  auto layout = product_layout(call.kernel);
  if (!layout) return false;
  if (precision == Precision::FP8) layout = along_the_sum(*layout);
  const ProductOperands operands = product_operands(call.kernel);
  const auto data = [&](std::size_t i) { return data_of(call, i, precision); };
  const bool forward = call.kernel.phase == Phase::Forward;
  Factors factors{.layout = *layout,
                  .first = data(layout->first.operand),
                  .second = data(layout->second.operand),
                  .result = data(operands.result),
                  .accumulate = call.kernel.accumulate,
                  // Eight-bit products may add up with fewer bits where the
                  // result is no gradient, as Transformer Engine has it.
                  .fast = precision == Precision::FP8 && forward,
                  .element = call.operand(operands.result).element};
  if (operands.addend) {
    const auto view = product::view_of(call.kernel, *operands.addend);
    if (!view || !product::lies_by_row(*view)) return false;
    factors.addend_layout = product::transpose_of(*view);
    factors.addend = data(*operands.addend);
  }
  if (!forward && operands.bias && !prepares_) launch_bias_gradient(call, precision, place_);
  if (!forward || !operands.bias) return multiply(factors, precision);
  factors.bias = data(*operands.bias);
  if (multiply(factors, precision)) return true;
  factors.bias = nullptr;
  if (!multiply(factors, precision)) return false;
  if (!prepares_) launch_bias(call, precision, place_);
  return true;
}

namespace {

// [k, n] of an expert, or rows of tokens.
product::View expert_view(const KernelCall& call, std::size_t i) {
  const auto& o = call.operand(i);
  return {i, o.sizes[1], o.sizes[2], o.strides[1], o.strides[2]};
}
product::View token_view(const KernelCall& call, std::size_t i, std::int64_t rows) {
  const std::int64_t columns = call.operand(i).sizes.back();
  return {i, rows, columns, columns, 1};
}

std::optional<ProductLayout> expert_layout(const KernelCall& call, std::int64_t rows) {
  const std::size_t last = call.operand_count() - 1;
  switch (call.kernel.phase) {
    case Phase::Forward:
      return product::layout_of(token_view(call, 0, rows), expert_view(call, 1),
                                token_view(call, last, rows));
    case Phase::InputGradient:
      return product::layout_of(token_view(call, 1, rows), expert_view(call, 0).flipped(),
                                token_view(call, last, rows));
    case Phase::WeightGradient:
      return product::layout_of(token_view(call, 0, rows).flipped(), token_view(call, 1, rows),
                                expert_view(call, last));
    case Phase::Step:
      break;
  }
  return {};
}

// Rows of each expert, from those that each sender has for it.
std::vector<std::int64_t> expert_rows(std::span<const std::int64_t> counts, std::int64_t experts) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(experts));
  for (std::size_t i = 0; i < counts.size(); ++i) rows[i % rows.size()] += counts[i];
  return rows;
}

}  // namespace

// One product after the other; who calls knows how many rows each expert has.
bool Products::launch_experts(const KernelCall& call, Precision precision) {
  const std::size_t last = call.operand_count() - 1;
  const Phase phase = call.kernel.phase;
  const std::size_t weight =
      phase == Phase::Forward ? 1 : (phase == Phase::InputGradient ? 0 : last);
  if (call.counts.empty()) return false;
  std::int64_t first_row = 0, expert = 0;
  for (const std::int64_t rows : expert_rows(call.counts, call.operand(weight).sizes[0])) {
    const auto data = [&](std::size_t i) {
      const Operand& operand = call.operand(i);
      const std::int64_t element =
          i == weight ? expert * operand.strides[0] : first_row * operand.sizes.back();
      return data_of(call, i, precision) +
             element * static_cast<std::int64_t>(width_of(operand.element, precision));
    };
    const auto layout = expert_layout(call, rows);
    if (!layout) return false;
    Factors factors{.layout = *layout,
                    .first = data(layout->first.operand),
                    .second = data(layout->second.operand),
                    .result = data(last),
                    .accumulate = call.kernel.accumulate,
                    .element = call.operand(last).element};
    if (call.kernel.has_addend) {
      factors.addend_layout = product::transpose_of(token_view(call, 3, rows));
      factors.addend = data(3);
    }
    if (!multiply(factors, precision)) return false;
    first_row += rows;
    ++expert;
  }
  return true;
}

bool is_product(const Kernel& kernel) {
  if (kernel.kind != KernelKind::Matmul) return kernel.kind == KernelKind::ExpertMatmul;
  if (!product_layout(kernel)) return false;
  const auto addend = product_operands(kernel).addend;
  if (!addend) return true;
  const auto view = product::view_of(kernel, *addend);
  return view && product::lies_by_row(*view);
}

}  // namespace meshwright::cuda

#include "tests/standin/blas_problem.h"

#include <functional>
#include <set>

namespace meshwright::standin {

std::optional<Number> number_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_64F:
      return Number::Double;
    case CUDA_R_32F:
      return Number::Float;
    case CUDA_R_16F:
      return Number::Half;
    case CUDA_R_16BF:
      return Number::Bfloat;
    case CUDA_R_8F_E4M3:
      return Number::Eight;
    default:
      return {};
  }
}

namespace {

BlasOperand operand_of(const BlasLayout& layout) {
  return {number_of(layout.type).value(),
          static_cast<std::int64_t>(layout.rows),
          static_cast<std::int64_t>(layout.columns),
          layout.stride,
          layout.batches,
          layout.batch_step};
}

// Rows and columns of what is multiplied.
std::pair<std::uint64_t, std::uint64_t> used_size(const BlasLayout& layout,
                                                  cublasOperation_t operation) {
  if (operation == CUBLAS_OP_N) return {layout.rows, layout.columns};
  return {layout.columns, layout.rows};
}

std::string refusal_of_types(const BlasProblem& problem) {
  const BlasDescription& how = problem.description;
  if (problem.a.type != problem.b.type) return "a and b are of different types";
  if (problem.c.type != problem.d.type) return "c and d are of different types";
  if (how.compute == CUBLAS_COMPUTE_64F) {
    const bool all = problem.a.type == CUDA_R_64F && problem.d.type == CUDA_R_64F;
    return all && how.factor == CUDA_R_64F ? "" : "a product in fp64 of other types";
  }
  if (how.factor != CUDA_R_32F) return "factors that are not fp32";
  const bool tf32 = how.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (how.compute != CUBLAS_COMPUTE_32F && !tf32) return "a way of adding up that is not known";
  const std::set<std::pair<cudaDataType_t, cudaDataType_t>> known = {
      {CUDA_R_32F, CUDA_R_32F},   {CUDA_R_16F, CUDA_R_16F},  {CUDA_R_16F, CUDA_R_32F},
      {CUDA_R_16BF, CUDA_R_16BF}, {CUDA_R_16BF, CUDA_R_32F},
  };
  if (tf32 && problem.a.type != CUDA_R_32F) return "TF32 of types that are not fp32";
  // 8-bit products are for devices of compute capability 8.9 and later, which this is not.
  return known.contains({problem.a.type, problem.d.type}) ? "" : "types that do not go together";
}

std::string refusal_of_epilogue(const BlasDescription& how) {
  constexpr unsigned kKnown = CUBLASLT_EPILOGUE_DEFAULT | CUBLASLT_EPILOGUE_RELU |
                              CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_GELU;
  if ((how.epilogue & ~kKnown) != 0) return "an epilogue that this does not compute";
  if (how.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return "";
  if (how.compute == CUBLAS_COMPUTE_64F) return "an epilogue in fp64";
  const bool biased = (how.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  return biased && how.bias == nullptr ? "an epilogue with a bias that has no pointer" : "";
}

}  // namespace

std::string refusal_of(const BlasLayout& layout) {
  if (!number_of(layout.type)) return "a type that is not known";
  if (layout.rows == 0 || layout.columns == 0) return "a matrix without elements";
  if (layout.order != CUBLASLT_ORDER_COL) return "an order of elements that is not by column";
  if (layout.stride < static_cast<std::int64_t>(layout.rows)) {
    return "a leading dimension of " + std::to_string(layout.stride) + " for " +
           std::to_string(layout.rows) + " rows";
  }
  if (layout.batches < 1) return "a batch of " + std::to_string(layout.batches);
  return "";
}

std::string refusal_of(const BlasProblem& problem) {
  for (const BlasLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    if (auto text = refusal_of(*layout); !text.empty()) return text;
    if (layout->batches != problem.d.batches) return "batches that differ";
  }
  const auto [m, k] = used_size(problem.a, problem.description.first);
  const auto [k_too, n] = used_size(problem.b, problem.description.second);
  if (k != k_too) return std::to_string(k) + " columns by " + std::to_string(k_too) + " rows";
  for (const BlasLayout* layout : {&problem.c, &problem.d}) {
    if (layout->rows != m || layout->columns != n) {
      return "a result of " + std::to_string(layout->rows) + " by " +
             std::to_string(layout->columns) + " for a product of " + std::to_string(m) + " by " +
             std::to_string(n);
    }
  }
  if (auto text = refusal_of_types(problem); !text.empty()) return text;
  return refusal_of_epilogue(problem.description);
}

BlasWork work_of(const BlasProblem& problem) {
  const BlasDescription& how = problem.description;
  BlasWork work{.a = operand_of(problem.a),
                .b = operand_of(problem.b),
                .c = operand_of(problem.c),
                .d = operand_of(problem.d)};
  work.a_transposed = how.first != CUBLAS_OP_N;
  work.b_transposed = how.second != CUBLAS_OP_N;
  work.in_double = how.compute == CUBLAS_COMPUTE_64F;
  if ((how.epilogue & CUBLASLT_EPILOGUE_RELU) != 0) work.function = BlasFunction::Relu;
  if ((how.epilogue & CUBLASLT_EPILOGUE_GELU) != 0) work.function = BlasFunction::Gelu;
  if ((how.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) work.bias = how.bias;
  work.bias_number = how.bias_type < 0
                         ? work.d.number
                         : number_of(static_cast<cudaDataType_t>(how.bias_type)).value();
  return work;
}

std::uint64_t mark_of(const BlasProblem& problem) {
  std::string text;
  const auto add = [&](auto number) { text += std::to_string(number) + ","; };
  for (const BlasLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    add(static_cast<int>(layout->type));
    add(layout->rows);
    add(layout->columns);
    add(layout->stride);
    add(layout->batches);
  }
  add(static_cast<int>(problem.description.compute));
  add(static_cast<int>(problem.description.first));
  add(static_cast<int>(problem.description.second));
  add(static_cast<int>(problem.description.epilogue));
  return std::hash<std::string>()(text);
}

}  // namespace meshwright::standin

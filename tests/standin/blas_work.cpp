#include "tests/standin/blas_work.h"

#include <cmath>
#include <vector>

namespace meshwright::standin {
namespace {

// Row by row, `rows` by `columns` of what is multiplied.
template <class Sum>
std::vector<Sum> values_of(const BlasOperand& operand, const void* data, bool transposed,
                           std::int64_t batch) {
  const std::int64_t rows = transposed ? operand.columns : operand.rows;
  const std::int64_t columns = transposed ? operand.rows : operand.columns;
  std::vector<Sum> values(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t at = transposed ? i * operand.stride + j : j * operand.stride + i;
      values[static_cast<std::size_t>(i * columns + j)] =
          static_cast<Sum>(read_number(operand.number, data, batch * operand.batch_step + at));
    }
  }
  return values;
}

// GELU by tanh, as cuBLASLt has it.
double applied(BlasFunction function, double x) {
  if (function == BlasFunction::Relu) return x > 0 ? x : 0;
  if (function == BlasFunction::None) return x;
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

template <class Sum>
void multiply_as(const BlasWork& work, std::int64_t batch) {
  const auto a = values_of<Sum>(work.a, work.a_data, work.a_transposed, batch);
  const auto b = values_of<Sum>(work.b, work.b_data, !work.b_transposed, batch);  // columns first
  const std::int64_t inner = work.a_transposed ? work.a.rows : work.a.columns;
  for (std::int64_t i = 0; i < work.d.rows; ++i) {
    for (std::int64_t j = 0; j < work.d.columns; ++j) {
      const Sum* const row = a.data() + i * inner;
      const Sum* const column = b.data() + j * inner;
      Sum sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) sum += row[k] * column[k];
      double value = work.alpha * static_cast<double>(sum);
      // What is not asked for is not read.
      if (work.beta != 0) {
        value += work.beta * read_number(work.c.number, work.c_data,
                                         batch * work.c.batch_step + j * work.c.stride + i);
      }
      if (work.bias != nullptr) value += read_number(work.bias_number, work.bias, i);
      write_number(work.d.number, work.d_data, batch * work.d.batch_step + j * work.d.stride + i,
                   applied(work.function, value));
    }
  }
}

}  // namespace

void multiply(const BlasWork& work) {
  for (std::int64_t batch = 0; batch < work.d.batches; ++batch) {
    work.in_double ? multiply_as<double>(work, batch) : multiply_as<float>(work, batch);
  }
}

}  // namespace meshwright::standin

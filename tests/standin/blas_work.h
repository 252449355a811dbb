#pragma once

#include <cstdint>
#include <optional>

#include "tests/standin/numbers.h"

namespace meshwright::standin {

// A matrix column by column.
struct BlasOperand {
  Number number = Number::Float;
  std::int64_t rows = 0, columns = 0, stride = 0;
  std::int64_t batches = 1, batch_step = 0;

  // From its first element to beyond its last.
  std::size_t bytes() const {
    const std::int64_t last = (batches - 1) * batch_step + (columns - 1) * stride + rows;
    return rows == 0 || columns == 0 ? 0 : static_cast<std::size_t>(last) * bytes_of(number);
  }
  friend bool operator==(const BlasOperand&, const BlasOperand&) = default;
};

enum class BlasFunction { None, Relu, Gelu };

// d = function(alpha * a * b + beta * c + bias), with a and b as they are or as their transposes;
// the bias has a number for every row.
struct BlasWork {
  BlasOperand a, b, c, d;
  bool a_transposed = false, b_transposed = false;
  BlasFunction function = BlasFunction::None;
  bool in_double = false;  // adds up in
  double alpha = 1, beta = 0;
  const void* bias = nullptr;
  Number bias_number = Number::Float;
  const void *a_data = nullptr, *b_data = nullptr, *c_data = nullptr;
  void* d_data = nullptr;
};

void multiply(const BlasWork& work);

}  // namespace meshwright::standin

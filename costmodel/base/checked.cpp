#include "costmodel/base/checked.h"

#include <fmt/format.h>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

[[noreturn]] void fail(std::int64_t a, char operation, std::int64_t b) {
  throw InputError(
      fmt::format("the sizes are too large: {} {} {} does not fit into 64 bits", a, operation, b));
}

}  // namespace

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail(a, '+', b);
  return sum;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) fail(a, '*', b);
  return product;
}

std::int64_t checked_product(std::span<const std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) product = checked_multiply(product, factor);
  return product;
}

std::int64_t checked_product(std::initializer_list<std::int64_t> factors) {
  return checked_product(std::span(factors.begin(), factors.size()));
}

}  // namespace meshwright

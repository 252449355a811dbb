#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

namespace meshwright {

// 64-bit arithmetic on sizes that come, through products, from numbers a person wrote. A result
// that does not fit is an InputError, never a wrapped number.
std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t checked_multiply(std::int64_t a, std::int64_t b);
std::int64_t checked_product(std::initializer_list<std::int64_t> factors);
std::int64_t checked_product(std::span<const std::int64_t> factors);

}  // namespace meshwright

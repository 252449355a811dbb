#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace meshwright::standin {

// What memory holds.
enum class Number { Double, Float, Half, Bfloat, Eight, Int32, Int64, Byte };

std::size_t bytes_of(Number number);
double read_number(Number number, const void* from, std::int64_t i);
void write_number(Number number, void* to, std::int64_t i, double value);
// As it is after it was stored as such a number.
double rounded_to(Number number, double value);

}  // namespace meshwright::standin

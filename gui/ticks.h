#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace meshwright {

// Where an axis has its marks: at most `most` of them, at round numbers (1, 2 or 5 times a power of
// ten), from the first in the range on.
struct Ticks {
  double first = 0, step = 1;
  std::size_t count = 0;
  double at(std::size_t index) const { return first + step * static_cast<double>(index); }
};
Ticks round_ticks(double from, double to, std::size_t most);

// A moment in nanoseconds as text, exact enough to tell ticks apart that are `step` apart:
// "1.25 ms".
std::string moment_text(std::int64_t nanoseconds, double step);
// How long something took: three figures.
std::string duration_text(std::int64_t nanoseconds);

}  // namespace meshwright

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace meshwright {

// Up to `most`, ascending.
inline std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    if (d <= most) found.push_back(d);
    if (d * d < number && number / d <= most) found.push_back(number / d);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace meshwright

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "simulator/choices/plan_choices.h"

namespace meshwright {

inline std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d <= std::min(number, most); ++d) {
    if (number % d == 0) found.push_back(d);
  }
  return found;
}

// The same choices with each of the values.
template <class Value, class Set>
std::vector<PlanChoices> each(const PlanChoices& from, const std::vector<Value>& values, Set set) {
  std::vector<PlanChoices> all;
  for (const Value& value : values) {
    all.push_back(from);
    set(all.back(), value);
  }
  return all;
}

}  // namespace meshwright

#pragma once

#include <vector>

#include "planner/bound/divisors.h"
#include "simulator/choices/plan_choices.h"

namespace meshwright {

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

#pragma once

#include <optional>
#include <vector>

#include "planner/search/search.h"

namespace meshwright {

// All plans of a space, one after the other.
std::vector<PlanChoices> all_plans(const SearchQuestion& question, const Setting& setting);

// The shortest step of a plan that fits, by simulating every one.
std::optional<Seconds> best_of_all(const SearchQuestion& question, const Setting& setting);

// The least that any of them needs on its fullest device, of those that leave hosts enough; none:
// there are none.
std::optional<Bytes> least_of_all(const SearchQuestion& question, const Setting& setting);

}  // namespace meshwright

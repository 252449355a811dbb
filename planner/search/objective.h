#pragma once

#include "planner/search/search.h"

namespace meshwright {

// What the question wants least of.
double cost_of(const SearchQuestion& question, const PlanChoices& choices, Seconds step);
bool is_too_slow(const SearchQuestion& question, Seconds step);

// Of the largest device, as far as the question allows.
Bytes capacity_of(const SearchQuestion& question, const Cluster& cluster);

}  // namespace meshwright

#pragma once

#include <vector>

#include "planner/search/node.h"
#include "planner/search/space.h"

namespace meshwright {

// A set decided one step further; none for a plan.
std::vector<Child> children_of(const Node& node, const SearchSpace& space, Bounds& bounds);

}  // namespace meshwright

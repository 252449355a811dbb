#pragma once

#include <vector>

#include "planner/search/open_sets.h"
#include "planner/search/space.h"

namespace meshwright {

// Choices that are to be bounded.
struct Child {
  Depth depth = Depth::Mesh;
  PlanChoices choices;
  Seconds least = {};  // what is known of the time before
};

// A set decided one step further; none for a plan.
std::vector<Child> children_of(const Node& node, const SearchSpace& space, Bounds& bounds);

}  // namespace meshwright

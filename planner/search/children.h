#pragma once

#include <vector>

#include "planner/search/open_sets.h"
#include "planner/search/space.h"

namespace meshwright {

// Choices that are to be bounded.
struct Child {
  Depth depth = Depth::Mesh;
  PlanChoices choices;
  // What is known before: of the time, and of the memory.
  Seconds least = {};
  Bytes least_bytes = {};
};

// A set decided one step further; none for a plan.
std::vector<Child> children_of(const Node& node, const SearchSpace& space, Bounds& bounds);

}  // namespace meshwright

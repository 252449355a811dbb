#pragma once

#include "planner/bound/plan_bound.h"
#include "simulator/choices/plan_choices.h"

namespace meshwright {

// How far choices have come; each step decides more.
enum class Depth {
  Mesh,
  Kernels,
  Microbatch,
  Split,     // whether the sequence is cut, and each expert's products
  Sharing,   // how work is divided, in any place
  Place,     // before anything is lowered
  Division,  // the same, with what its blocks take
  Schedule,
  Offload,
  Memory,  // the same, with what it needs at the least
  Zero,
  State,   // the same, with what finds no room beside the state
  Lanes,   // the same, with what lanes have to do about it
  Played,  // the same, with when they do
  Recompute,
  Decided,  // nothing is open
  Plan      // the same, with when lanes do what they have to
};

// Choices that are to be bounded.
struct Child {
  Depth depth = Depth::Mesh;
  PlanChoices choices;
  PlanBound before = {};  // what is known of all that it is one of
};

struct Node {
  Depth depth = Depth::Mesh;
  PlanChoices choices;
  PlanBound bound;
  double cost = 0;  // least, by the objective
};

}  // namespace meshwright

#include "planner/search/children.h"

namespace meshwright {

std::vector<Child> children_of(const Node& node, const SearchSpace& space, Bounds& bounds) {
  const PlanChoices& choices = node.choices;
  std::vector<Child> children;
  PlanBound known = node.bound;
  // What one of them needs that finds room is none of the others' bound.
  if (node.depth < Depth::Memory || node.depth >= Depth::Played) known.bytes = {};
  const auto add_each = [&](Depth depth, std::vector<PlanChoices> all) {
    for (PlanChoices& one : all) children.push_back({depth, std::move(one), known});
  };
  switch (node.depth) {
    case Depth::Mesh:
      add_each(Depth::Kernels, {choices});
      break;
    case Depth::Kernels:
      add_each(Depth::Microbatch, space.microbatches(choices));
      break;
    case Depth::Microbatch:
      add_each(Depth::Split, space.splits(choices));
      break;
    case Depth::Split:
      add_each(Depth::Sharing, space.sharings(choices));
      break;
    case Depth::Sharing:
      add_each(Depth::Place, space.places(choices));
      break;
    case Depth::Place:
      add_each(Depth::Division, {choices});
      break;
    case Depth::Division:
      for (const PlanChoices& scheduled : space.schedules(choices)) {
        add_each(Depth::Schedule, space.layerings(scheduled, bounds));
      }
      break;
    case Depth::Schedule:
      add_each(Depth::Offload, space.activation_offloads(choices));
      break;
    case Depth::Offload:
      add_each(Depth::Memory, {choices});
      break;
    case Depth::Memory:
      add_each(Depth::Zero, space.zeros(choices));
      break;
    case Depth::Zero:
      add_each(Depth::State, {choices});
      break;
    case Depth::State:
      add_each(Depth::Lanes, {choices});
      break;
    case Depth::Lanes:
      add_each(Depth::Played, {choices});
      break;
    case Depth::Played:
      add_each(Depth::Recompute, space.recomputes(choices));
      add_each(Depth::Recompute, space.partly_offloaded(choices));
      break;
    case Depth::Recompute:
      for (const PlanChoices& offloaded : space.optimizer_offloads(choices)) {
        add_each(Depth::Decided, space.buckets(offloaded));
      }
      if (const auto more = space.dropping_more(choices)) add_each(Depth::Recompute, {*more});
      break;
    case Depth::Decided:
      add_each(Depth::Plan, {choices});
      break;
    case Depth::Plan:
      break;
  }
  return children;
}

}  // namespace meshwright

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "planner/bound/plan_bound.h"
#include "planner/search/node.h"
#include "planner/search/space.h"

namespace meshwright {

// A plan and what it takes at least, without playing it.
struct BoundedPlan {
  PlanChoices choices;
  Seconds least;
};

// Bounds of sets of plans, as far as these are decided.
class SetBounds {
 public:
  // All must outlive this. A plan that needs more than `room` does not fit.
  SetBounds(const SearchSpace& space, Bytes room, std::unique_ptr<Bounds> bounds)
      : space_(space), room_(room), bounds_(std::move(bounds)) {}

  // Or why they cannot be planned. Nothing at Depth::Played: that takes playing its buckets. At
  // Depth::Recompute it is that of all plans with at least as many layers that drop more; where
  // they find no room with so few, they are the first that may.
  std::variant<PlanBound, Reasons> of(Child& child);
  // Plans that take no longer than any of the set, one for each bucket, the least bound first.
  std::vector<BoundedPlan> bounded_buckets(const PlanChoices& choices);
  Bounds& bounds() const { return *bounds_; }

 private:
  PlanBound bound_of(Child& child);
  PlanBound of_sharing(const PlanChoices& choices, Seconds known);
  PlanBound of_place(const PlanChoices& choices);
  PlanBound of_schedule(const PlanChoices& choices);
  const std::vector<Staging>& stagings(const PlanChoices& choices);
  StateTransfers state_transfers(const PlanChoices& choices);
  PlanChoices in_any_bucket(const PlanChoices& choices) const;  // for what is needed
  PlanBound of_memory(const PlanChoices& choices);
  PlanBound of_state(const PlanChoices& choices);
  std::variant<PlanBound, Reasons> of_recompute(PlanChoices& choices);
  std::optional<PlanChoices> first_with_room(const PlanChoices& choices);
  std::optional<Bytes> lean_bytes(const PlanChoices& choices);

  const SearchSpace& space_;
  const Bytes room_;
  std::unique_ptr<Bounds> bounds_;
  std::map<std::int64_t, std::vector<Staging>> stagings_;  // the latest, by stages
  // Of the latest degrees: work is shared out in many ways.
  std::array<std::int64_t, 4> placed_ = {};
  std::vector<SharedList<NodeShare>> places_;
  // Of the latest division: it has many schedules.
  PlanChoices divided_;
  std::vector<StateTransfers> transfers_;
};

}  // namespace meshwright

#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <variant>
#include <vector>

#include "planner/search/crew.h"
#include "planner/search/set_bounds.h"

namespace meshwright {

// Bounds of sets of plans that threads share out among them.
class SharedBounds {
 public:
  // All must outlive this. A plan that needs more than `room` does not fit.
  SharedBounds(const SearchSpace& space, Bytes room, std::unique_ptr<Bounds> bounds, Crew& crew,
               std::stop_token stop);

  // Of sets alike, in their order, whichever thread bounds them; or why they cannot be planned.
  // When asked to stop it leaves some out.
  std::vector<std::variant<PlanBound, Reasons>> of(std::vector<Child>& children);
  // Of the thread that asks.
  Bounds& bounds() const { return sets_.front().bounds(); }

 private:
  std::variant<PlanBound, Reasons> bound_of(std::size_t thread, Child& child);
  Seconds of_played(const PlanChoices& choices);

  Crew& crew_;
  const std::stop_token stop_;
  std::vector<SetBounds> sets_;  // of each thread
};

}  // namespace meshwright

#pragma once

#include <map>
#include <optional>

#include "planner/search/search.h"
#include "planner/search/set_bounds.h"

namespace meshwright {

// What comes nearest to a plan that fits, while a search finds none.
class NearestPlan {
 public:
  // All must outlive this. What needs more than `room` does not fit.
  NearestPlan(const SearchQuestion& question, const Setting& setting, Bytes room, Bytes capacity)
      : question_(question), setting_(setting), room_(room), capacity_(capacity) {}

  // A plan that was simulated, and what it needs.
  void note(const PlanChoices& choices, Bytes needed);
  // A set, or a plan, that finds no room as far as is known, on devices or on their hosts.
  void note_large(const Node& node);

  // The nearest of all, with what it really needs if that is to be simulated.
  std::optional<Nearest> settled(SetBounds& bounds, bool simulated) const;

 private:
  bool is_nearer(Bytes needed, const std::optional<Nearest>& nearest) const;

  const SearchQuestion& question_;
  const Setting& setting_;
  const Bytes room_, capacity_;
  std::optional<Nearest> nearest_;
  std::optional<Node> early_;         // the least of those that do not fit while much is open
  std::multimap<Bytes, Node> large_;  // the least of the others, by what they need as far as known
};

}  // namespace meshwright

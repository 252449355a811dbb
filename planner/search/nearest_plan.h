#pragma once

#include <optional>
#include <stop_token>

#include "planner/search/search.h"
#include "planner/search/space.h"

namespace meshwright {

// What comes nearest to a plan that fits, while a search finds none: of all that were simulated the
// one that needs least. Where devices have enough, or would have with more, hosts may have too
// little memory: that is nearest only if nothing else is.
class NearestPlan {
 public:
  // All must outlive this.
  NearestPlan(const SearchQuestion& question, const Setting& setting)
      : question_(question), setting_(setting) {}

  // A plan that was simulated and does not fit.
  void note(const PlanChoices& choices, const Report& report);
  // One that fits, and is no answer for another reason.
  void note_fitting() { fits_ = true; }
  // Simulates plans that need little by their bounds, of several kinds, as long as they may need
  // less than what is known: bounds alone do not tell which needs least. Counts what they are.
  void look_around(const SearchSpace& space, Bounds& bounds, SearchCounts& counts,
                   const std::stop_token& stop);

  // Whether there are plans, though none may be near enough to be named.
  bool knows_plans() const { return fits_ || nearest_ || left_some_; }
  // None where a plan fits: then it is not memory that is lacking.
  std::optional<Nearest> nearest() const { return fits_ ? std::nullopt : nearest_; }

 private:
  Bytes room() const;

  const SearchQuestion& question_;
  const Setting& setting_;
  std::optional<Nearest> nearest_;
  bool fits_ = false, left_some_ = false;
};

}  // namespace meshwright

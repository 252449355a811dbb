#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <variant>

#include "simulator/choices/plan_choices.h"
#include "simulator/report/predict.h"

namespace meshwright {

struct SimulatedPlan {
  Plan plan;
  Report report;
  std::int64_t tasks = 0;
};
// One of its devices needs so much, whenever its tasks run.
struct TooLarge {
  Bytes needed;
};
using TriedPlan = std::variant<SimulatedPlan, TooLarge, Reasons>;

// Finds out what comes of plans. Many in a row differ in their bucket alone, which nothing else of
// a plan depends on: the rest is made once.
class PlanTrials {
 public:
  // All must outlive this.
  PlanTrials(const BatchChoice& batch, const Setting& setting) : batch_(batch), setting_(setting) {}

  // One with a device that needs more than `room` in any order is not played, and where it is one
  // of `fullest_stage`, no other stage is lowered.
  TriedPlan of(const PlanChoices& choices, std::size_t fullest_stage, Bytes room);

 private:
  std::variant<Plan, Reasons> plan_with_bucket(const PlanChoices& choices);

  const BatchChoice& batch_;
  const Setting& setting_;
  std::deque<std::pair<PlanChoices, std::variant<Plan, Reasons>>> latest_;  // in any bucket
};

}  // namespace meshwright

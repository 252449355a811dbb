#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <stop_token>
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
// Nothing came of it, since it was asked to stop.
struct Stopped {};
using TriedPlan = std::variant<SimulatedPlan, TooLarge, Reasons, Stopped>;

// Finds out what comes of plans. Many in a row differ in their bucket alone, which nothing else of
// a plan depends on: the rest is made once.
class PlanTrials {
 public:
  // All must outlive this.
  PlanTrials(const BatchChoice& batch, const Setting& setting, std::stop_token stop)
      : batch_(batch), setting_(setting), stop_(std::move(stop)) {}

  // One with a device that needs more than `room` in any order is not played, and where it is one
  // of `fullest_stage`, no other stage is lowered. Sizes beyond 64 bits speak against a plan.
  TriedPlan of(const PlanChoices& choices, std::size_t fullest_stage, Bytes room);

 private:
  TriedPlan lowered_and_played(const PlanChoices& choices, std::size_t fullest_stage, Bytes room);
  std::variant<Plan, Reasons> plan_with_bucket(const PlanChoices& choices);

  const BatchChoice& batch_;
  const Setting& setting_;
  const std::stop_token stop_;
  std::deque<std::pair<PlanChoices, std::variant<Plan, Reasons>>> latest_;  // in any bucket
};

}  // namespace meshwright

#include "planner/search/expectation.h"

#include <algorithm>

namespace meshwright {
namespace {

std::size_t kind_of(const PlanChoices& choices) {
  return 2 * static_cast<std::size_t>(choices.zero) + (choices.offload_activations ? 1 : 0);
}

// Of plans that do the same with all micro-batches, and differ in what is done with their state.
std::string without_state(PlanChoices choices) {
  choices.bucket = choices.bucket_per_replica = Bytes();
  choices.offload_optimizer = false;
  return to_text(choices);
}

}  // namespace

double Expectation::of(const Node& node) const {
  constexpr double kTooLarge = 2;
  double expected = node.cost;
  for (auto depth = static_cast<std::size_t>(node.depth); depth < growth_.size(); ++depth) {
    expected *= growth_[depth];
  }
  if (node.depth < Depth::Zero) return expected;
  return expected * plan_growth_[kind_of(node.choices)].step * (fits(node) ? 1 : kTooLarge);
}

bool Expectation::fits(const Node& node) const {
  const double bytes = static_cast<double>(node.bound.bytes.value());
  return bytes * plan_growth_[kind_of(node.choices)].bytes <= static_cast<double>(room_.value());
}

bool Expectation::may_cost_less(const Node& plan, double enough) const {
  const auto known = cost_growth_.find(without_state(plan.choices));
  return known == cost_growth_.end() || plan.cost * known->second < enough;
}

// As good sets grow: a fifth of all grow less.
void Expectation::learn(Depth depth, double growth) {
  constexpr double kRate = 0.02, kShare = 0.2;
  double& known = growth_[static_cast<std::size_t>(depth)];
  known = std::max(1.0, known * (1 + kRate * (growth > known ? kShare : kShare - 1)));
}

void Expectation::learn(const Node& plan, const Report& report, double cost) {
  constexpr double kWeight = 0.3;
  PlanGrowth& growth = plan_growth_[kind_of(plan.choices)];
  growth.step += kWeight * (report.step / plan.bound.step - growth.step);
  if (plan.cost > 0) cost_growth_[without_state(plan.choices)] = cost / plan.cost;
  learn_needed(plan, Report::needed(report.fullest()));
}

void Expectation::learn_needed(const Node& plan, Bytes needed) {
  constexpr double kWeight = 0.7;
  PlanGrowth& growth = plan_growth_[kind_of(plan.choices)];
  growth.bytes += kWeight * (needed / plan.bound.bytes - growth.bytes);
}

}  // namespace meshwright

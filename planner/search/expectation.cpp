#include "planner/search/expectation.h"

#include <algorithm>

namespace meshwright {
namespace {

// Of plans that do the same with all micro-batches, and differ in what is done with their state.
std::string without_state(PlanChoices choices) {
  choices.bucket = choices.bucket_per_replica = Bytes();
  choices.offload_optimizer = false;
  return to_text(choices);
}

}  // namespace

std::size_t Expectation::step_kind(const PlanChoices& choices) {
  return 2 * static_cast<std::size_t>(choices.zero) + (choices.offload_activations ? 1 : 0);
}

// What ZeRO-3 gathers stands in buckets, and what lies between them nothing else finds room in.
Expectation::BytesKind Expectation::bytes_kind(const PlanChoices& choices) {
  const Bytes bucket = choices.zero == 3 ? bucket_of(choices) : Bytes();
  return {choices.tp, choices.pp, choices.zero, choices.offload_activations, bucket};
}

double Expectation::of(const Node& node) const {
  constexpr double kTooLarge = 2;
  double expected = node.cost;
  for (auto depth = static_cast<std::size_t>(node.depth); depth < growth_.size(); ++depth) {
    expected *= growth_[depth];
  }
  if (node.depth < Depth::Zero) return expected;
  return expected * step_growth_[step_kind(node.choices)] * (fits(node) ? 1 : kTooLarge);
}

double Expectation::bytes_of(const Node& node) const {
  const double bytes = static_cast<double>(node.bound.bytes.value());
  const auto known = bytes_growth_.find(bytes_kind(node.choices));
  const double growth = known == bytes_growth_.end() ? unknown_growth_ : known->second;
  return bytes * growth;
}

bool Expectation::fits(const Node& node) const {
  return bytes_of(node) <= static_cast<double>(room_.value());
}

// Of a micro-batch through a layer: a hundred tasks.
bool Expectation::plays_long(const Node& node) const {
  constexpr std::int64_t kMany = 5000;
  const PlanChoices& choices = node.choices;
  if (node.depth < Depth::Microbatch) return false;
  return passes_ / (choices.dp * choices.microbatch) > kMany;
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
  double& growth = step_growth_[step_kind(plan.choices)];
  growth += kWeight * (report.step / plan.bound.step - growth);
  if (plan.cost > 0) cost_growth_[without_state(plan.choices)] = cost / plan.cost;
  learn_needed(plan, Report::needed(report.fullest()));
}

void Expectation::learn_needed(const Node& plan, Bytes needed) {
  constexpr double kWeight = 0.7;
  if (!found_) found_ = needed <= room_;
  unknown_growth_ = found_ ? kLikelyGrowth : 1;
  double& growth = bytes_growth_.try_emplace(bytes_kind(plan.choices), kLikelyGrowth).first->second;
  growth += kWeight * (needed / plan.bound.bytes - growth);
}

}  // namespace meshwright

#include "planner/search/objective.h"

#include <algorithm>

namespace meshwright {

double cost_of(const SearchQuestion& question, const PlanChoices& choices, Seconds step) {
  const auto devices = static_cast<double>(device_count(choices));
  // Where no step is too long, one that nobody waits for.
  constexpr double kLongest = 1e4;
  const double longest = question.longest_step ? question.longest_step->value() : kLongest;
  switch (question.objective) {
    case Objective::Time:
      return step.value();
    case Objective::TimePerToken:
      return step.value() * devices;
    case Objective::Devices:
      // Of plans with as many devices the fastest: its step is a part of one device.
      return devices + 0.5 * std::min(1.0, step.value() / longest);
  }
  return step.value();
}

bool is_too_slow(const SearchQuestion& question, Seconds step) {
  return question.longest_step && step > *question.longest_step;
}

Bytes capacity_of(const SearchQuestion& question, const Cluster& cluster) {
  Bytes capacity;
  for (const NodeType& node : cluster.node_types) {
    const Bytes own = node.device.memory.value;
    capacity = std::max(capacity, std::min(question.max_memory.value_or(own), own));
  }
  return capacity;
}

}  // namespace meshwright

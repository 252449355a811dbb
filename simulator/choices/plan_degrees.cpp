// How many devices choices need, and what these have in common.
#include <algorithm>

#include "simulator/choices/plan_choices.h"

namespace meshwright {

std::int64_t device_count(const PlanChoices& choices) {
  return choices.dp * choices.tp * choices.pp * choices.cp;
}

ContextDegrees context_degrees(const PlanChoices& choices) {
  const std::int64_t heads =
      choices.context == Context::Ulysses ? choices.cp : choices.ulysses.value_or(1);
  const std::int64_t all = choices.cp / heads;
  const std::int64_t ring =
      choices.context == Context::DoubleRing ? choices.inner_ring.value_or(all) : all;
  return {.rings = all / ring, .ring = ring, .heads = heads};
}

std::int64_t repeated_weights(const PlanChoices& choices) {
  const std::int64_t layers = choices.tensor == TensorForm::TwoAndHalfD ? choices.depth : 1;
  return choices.dp * choices.cp * layers;
}

std::int64_t devices_in_node(const PlanChoices& choices) {
  std::int64_t devices = 1;
  for (const NodeShare& share : choices.place) devices *= share.count;
  return devices;
}

Bytes bucket_of(const PlanChoices& choices) {
  return std::max(choices.bucket, choices.bucket_per_replica * (choices.dp * choices.cp));
}

}  // namespace meshwright

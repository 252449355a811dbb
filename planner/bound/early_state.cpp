// What the state of plans takes of which only the devices, their place and ZeRO are known.
#include <algorithm>
#include <optional>
#include <set>

#include "planner/bound/plan_bound.h"
#include "planner/bound/stage_play.h"
#include "simulator/choices/stage_axes.h"

namespace meshwright {
StageHolds Bounds::share_of(const PlanChoices& choices, const WeightElements& weights) const {
  const std::int64_t routed =
      weights.routed / (choices.ep * expert_tensor_degree(choices) * choices.pp);
  const bool shared = replicas_sharing_experts(choices) > 1;
  return {.elements = weights.common / (choices.tp * choices.pp) + routed,
          .routed = shared ? routed : 0};
}

// One stage has no less than all have on average.
Bytes Bounds::state_of(const PlanChoices& choices) const {
  return state_bytes(share_of(choices, weights_), choices, element_plan(choices), setting_) +
         held_always(choices);
}

// A group of devices that sum gradients, one of those that share products out, and one that adds up
// the norm, of more devices with ZeRO: those of other sizes are others. One more is for all pairs.
Bytes Bounds::held_always(const PlanChoices& choices) const {
  const SoftwareMemory& memory = setting_.memory;
  std::set<std::int64_t> groups = {1};
  if (choices.tensor == TensorForm::OneD && weights_.common > 0) {
    groups.insert({repeated_weights(choices), choices.tp, choices.pp * choices.tp});
  }
  const auto count = static_cast<std::int64_t>(groups.size()) - 1 + (choices.pp > 1 ? 1 : 0);
  const bool wide = choices.gradient_precision.value_or(Precision::FP32) == Precision::FP32;
  return memory.context + memory.communicator * count + memory.transfer_buffers +
         memory.gradient_buffers * (wide ? 2 : 1);
}

// As in StagePlay::lanes_s and sums_s.
StateTransfers Bounds::state_transfers(const PlanChoices& choices) {
  StateTransfers all{.zero = choices.zero};
  const auto owners = replica_group(choices, choices.zero > 0 ? Repeating::Owners : Repeating::All);
  const auto shares = replica_group(choices, Repeating::Shares);
  if (!owners || !shares || repeated_weights(choices) == 1) return all;
  WeightElements weights = layer_weights_;
  auto sharing = replica_group(choices, Repeating::Experts);
  if (choices.shard && replicas_sharing_experts(choices) > 1) sharing.reset();
  if (!sharing) weights.routed = 0;
  const StageHolds holds = share_of(choices, weights);
  const BufferElement gradient = gradient_element(element_plan(choices));
  const auto microbatches = static_cast<double>(microbatches_of(choices));
  const double sums = choices.zero >= 2 ? microbatches : 1;
  const bool again = choices.zero == 3 && choices.reshard;
  const double gathers = again ? 2 * microbatches : 1, gathers_back = again ? microbatches : 0;
  const std::int64_t most_elements =
      bucket_of(choices).value() / bytes_per_element(BufferElement::Real, batch_.precision).value();
  PortLoad ports;
  // A stage with more weights has no less to transfer, and a bucket has no more than its most, or
  // one weight.
  const auto add_lane = [&](const ReplicaGroup& group, std::int64_t elements, std::int64_t weight) {
    const std::int64_t most = std::min(elements, std::max(most_elements, weight));
    double step_s = 0, back_s = 0;
    const auto add = [&](TransferKind kind, BufferElement element, double times, double back) {
      const TransferLoad rate = group_rate(kind, element, group, most);
      const auto count = static_cast<double>(elements);
      step_s += count * times * rate.seconds;
      back_s += count * back * rate.seconds;
      ports.add(rate.ports, count * times);
      all.back_ports.add(rate.ports, count * back);
    };
    if (choices.zero == 0) {
      add(TransferKind::AllReduce, gradient, 1, 1);
    } else {
      add(TransferKind::ReduceScatter, gradient, sums, sums);
      add(TransferKind::AllGather, BufferElement::Real, gathers, gathers_back);
    }
    all.step_s = std::max(all.step_s, step_s);
    all.back_s = std::max(all.back_s, back_s);
  };
  // Experts that nobody shares out are summed with all others.
  const std::int64_t largest =
      std::max(largest_.common, holds.routed > 0 ? std::int64_t{0} : largest_.routed);
  const std::int64_t elements = holds.elements - holds.routed;
  add_lane(*owners, elements, largest);
  if (choices.zero > 0 && shares->members > 1) {
    const std::int64_t owned = elements / owners->members;
    const TransferLoad rate =
        group_rate(TransferKind::AllReduce, gradient, *shares,
                   std::min(owned, std::max(most_elements, largest) / owners->members + 1));
    const double count = static_cast<double>(owned) * sums;
    all.back_s = std::max(all.back_s, count * rate.seconds);
    ports.add(rate.ports, count);
    all.back_ports.add(rate.ports, count);
  }
  if (sharing) add_lane(*sharing, holds.routed, share_of(choices, largest_).routed * choices.pp);
  all.step_s = std::max({all.step_s, all.back_s, ports.most()});
  return all;
}

Seconds StateTransfers::least_step(const StageEnds& ends) const {
  // Which stage has so many weights is not known.
  std::optional<double> summed;
  for (const StageBackwards& stage : ends.backwards) {
    PortLoad ports = back_ports;
    if (zero >= 2) ports.add(stage.ports);
    const double own = stage.summed_from(zero) + std::max(back_s, ports.most());
    summed = std::min(summed.value_or(own), own);
  }
  return Seconds(std::max(step_s, summed.value_or(0)) * kRounding);
}

}  // namespace meshwright

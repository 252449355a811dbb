// What the state of plans takes of which only the devices, their place and ZeRO are known.
#include <algorithm>
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

// What the lanes between replicas have to do, as in StagePlay::lanes_s, and what they take
// of links together.
Seconds Bounds::of_replicas(const PlanChoices& choices) {
  const auto all = replica_group(choices, choices.zero > 0 ? Repeating::Owners : Repeating::All);
  const auto shares = replica_group(choices, Repeating::Shares);
  if (!all || !shares || repeated_weights(choices) == 1) return {};
  WeightElements weights = layer_weights_;
  auto sharing = replica_group(choices, Repeating::Experts);
  if (choices.shard && replicas_sharing_experts(choices) > 1) sharing.reset();
  if (!sharing) weights.routed = 0;
  const StageHolds holds = share_of(choices, weights);
  const BufferElement gradient = gradient_element(element_plan(choices));
  const auto microbatches = static_cast<double>(microbatches_of(choices));
  const double sums = choices.zero >= 2 ? microbatches : 1;
  const double gathers = choices.zero == 3 && choices.reshard ? 2 * microbatches : 1;
  const std::int64_t most_elements =
      bucket_of(choices).value() / bytes_per_element(BufferElement::Real, batch_.precision).value();
  PortLoad ports;
  // A stage with more weights has no less to transfer, and a bucket has no more than its most, or
  // one weight.
  const auto lane = [&](const ReplicaGroup& group, std::int64_t elements, std::int64_t weight) {
    const std::int64_t most = std::min(elements, std::max(most_elements, weight));
    double seconds = 0;
    const auto add = [&](TransferKind kind, BufferElement element, double times) {
      const TransferLoad rate = group_rate(kind, element, group, most);
      seconds += static_cast<double>(elements) * times * rate.seconds;
      ports.add(rate.ports, static_cast<double>(elements) * times);
    };
    if (choices.zero == 0) {
      add(TransferKind::AllReduce, gradient, 1);
    } else {
      add(TransferKind::ReduceScatter, gradient, sums);
      add(TransferKind::AllGather, BufferElement::Real, gathers);
    }
    return seconds;
  };
  // Experts that nobody shares out are summed with all others.
  const std::int64_t largest =
      std::max(largest_.common, holds.routed > 0 ? std::int64_t{0} : largest_.routed);
  const std::int64_t elements = holds.elements - holds.routed;
  double common = lane(*all, elements, largest);
  if (choices.zero > 0 && shares->members > 1) {
    const std::int64_t owned = elements / all->members;
    const TransferLoad rate =
        group_rate(TransferKind::AllReduce, gradient, *shares,
                   std::min(owned, std::max(most_elements, largest) / all->members + 1));
    common = std::max(common, static_cast<double>(owned) * sums * rate.seconds);
    ports.add(rate.ports, static_cast<double>(owned) * sums);
  }
  const double routed =
      sharing ? lane(*sharing, holds.routed, share_of(choices, largest_).routed * choices.pp) : 0;
  return Seconds(std::max({common, routed, ports.most()}) * kRounding);
}

}  // namespace meshwright

// What the state of plans takes of which only the devices, their place and ZeRO are known.
#include <algorithm>

#include "planner/bound/plan_bound.h"
#include "planner/bound/stage_play.h"
#include "simulator/choices/stage_axes.h"

namespace meshwright {
namespace {

// Whether all groups of as many devices, as many of them in a node, transfer alike.
bool is_even(const Cluster& cluster) {
  return cluster.node_types.size() == 1 && cluster.nodes.size() == 1 &&
         cluster.exceptions.empty() && cluster.network.size() <= 1 &&
         cluster.node_types.front().levels.size() == 1;
}

// Of replicas and parts of the sequence.
std::int64_t repeats_in_node(const PlanChoices& choices) {
  std::int64_t inside = 1;
  for (const NodeShare& share : choices.place) {
    if (share.axis == "dp" || share.axis == "cp") inside *= share.count;
  }
  return inside;
}

}  // namespace

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
         setting_.memory.context;
}

TransferLoad Bounds::replica_rate(TransferKind kind, BufferElement element, std::int64_t members,
                                  std::int64_t inside) {
  if (members == 1) return {};
  const auto [entry, added] = replica_rates_.try_emplace({kind, element, members, inside});
  if (!added) return entry->second;
  Transfer transfer{.kind = kind, .purpose = Purpose::Gradients};
  const std::int64_t node = setting_.cluster.node_types.front().devices;
  // A pinned place may be one that nodes have no room for.
  const std::int64_t nodes = (members + inside - 1) / inside;
  if (inside > node || nodes * node > device_count(setting_.cluster)) return {};
  for (std::int64_t i = 0; i < members; ++i) {
    transfer.group.push_back(DeviceId(i / inside * node + i % inside));
  }
  // More than any bucket: of smaller ones an element takes no less.
  constexpr std::int64_t kMany = std::int64_t{1} << 34;
  const std::int64_t elements = kMany / members * members;
  const TransferLoad all = shared_price(std::move(transfer), elements, element);
  entry->second.seconds = all.seconds / static_cast<double>(elements);
  // Shares of links are rounded.
  constexpr double kShares = 1 - 1e-3;
  entry->second.ports.add(all.ports, kShares / static_cast<double>(elements));
  return entry->second;
}

// What the lanes between replicas have to do, as in StagePlay::replica_lane_s, and what they take
// of links together.
Seconds Bounds::of_replicas(const PlanChoices& choices) {
  const std::int64_t members = repeated_weights(choices);
  const bool placed = !choices.place.empty() ||
                      device_count(setting_.cluster) <= setting_.cluster.node_types.front().devices;
  if (members == 1 || choices.tensor != TensorForm::OneD || choices.shard || !placed ||
      !is_even(setting_.cluster)) {
    return {};
  }
  const std::int64_t sharing = replicas_sharing_experts(choices);
  const std::int64_t inside = choices.place.empty() ? members : repeats_in_node(choices);
  const StageHolds holds = share_of(choices, layer_weights_);
  const BufferElement gradient = gradient_element(element_plan(choices));
  const auto microbatches = static_cast<double>(microbatches_of(choices));
  const double sums = choices.zero >= 2 ? microbatches : 1;
  const double gathers = choices.zero == 3 && choices.reshard ? 2 * microbatches : 1;
  PortLoad ports;
  const auto lane = [&](std::int64_t elements, std::int64_t own, std::int64_t own_inside) {
    double seconds = 0;
    const auto add = [&](TransferKind kind, BufferElement element, double times) {
      const TransferLoad rate = replica_rate(kind, element, own, own_inside);
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
  const double common = lane(holds.elements - holds.routed, members, inside);
  // Where groups of replicas that share experts out begin anywhere in nodes, nothing is said of
  // them.
  const bool nested = inside % sharing == 0 || sharing % inside == 0;
  const double routed =
      nested ? lane(holds.routed, members / sharing, std::max<std::int64_t>(1, inside / sharing))
             : 0;
  return Seconds(std::max({common, routed, ports.most()}) * kRounding);
}

}  // namespace meshwright

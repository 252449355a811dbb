// Transfers among devices that repeat weights, where all such groups transfer alike.
#include <algorithm>

#include "planner/bound/plan_bound.h"
#include "simulator/choices/stage_axes.h"

namespace meshwright {

std::int64_t state_owners(const PlanChoices& choices) {
  return repeated_weights(choices) / choices.dp * choices.shard.value_or(choices.dp);
}

std::int64_t Bounds::repeats_in_node(const PlanChoices& choices) {
  std::int64_t inside = 1;
  for (const NodeShare& share : choices.place) {
    if (share.axis == "dp" || share.axis == "cp") inside *= share.count;
  }
  return inside;
}

bool Bounds::transfer_alike(const PlanChoices& choices) const {
  const std::int64_t node = setting_.cluster.node_types.front().devices;
  const bool placed = !choices.place.empty() || device_count(setting_.cluster) <= node;
  return even_ && placed && choices.tensor == TensorForm::OneD;
}

// A pinned place may be one that nodes have no room for.
bool Bounds::has_room_for(const ReplicaGroup& group) const {
  const std::int64_t node = setting_.cluster.node_types.front().devices;
  const std::int64_t nodes = (group.members + group.inside - 1) / group.inside;
  return group.inside <= node && nodes * node <= device_count(setting_.cluster);
}

std::vector<DeviceId> Bounds::devices_of(const ReplicaGroup& group) const {
  const std::int64_t node = setting_.cluster.node_types.front().devices;
  std::vector<DeviceId> devices;
  for (std::int64_t i = 0; i < group.members; ++i) {
    devices.push_back(DeviceId(i / group.inside * node + i % group.inside));
  }
  return devices;
}

std::optional<Bounds::ReplicaGroup> Bounds::replica_group(const PlanChoices& choices,
                                                          Repeating which) const {
  if (!transfer_alike(choices)) return std::nullopt;
  const std::int64_t members = repeated_weights(choices);
  const std::int64_t inside = choices.place.empty() ? members : repeats_in_node(choices);
  const ReplicaGroup all{members, inside};
  if (!has_room_for(all)) return std::nullopt;
  if (which == Repeating::All) return all;
  if (which != Repeating::Experts) return state_group(choices, which);
  // Where groups of replicas that share experts out begin anywhere in nodes, nothing is said of
  // them.
  const std::int64_t sharing = replicas_sharing_experts(choices);
  if (choices.ep > 1 && choices.cp > 1) return std::nullopt;
  if (inside % sharing != 0 && sharing % inside != 0) return std::nullopt;
  return ReplicaGroup{members / sharing, std::max<std::int64_t>(1, inside / sharing)};
}

// Replicas that share state out stand next to each other, with all parts of their sequences.
std::optional<Bounds::ReplicaGroup> Bounds::state_group(const PlanChoices& choices,
                                                        Repeating which) const {
  const std::int64_t shard = choices.shard.value_or(choices.dp), sets = choices.dp / shard;
  const auto share = std::ranges::find(choices.place, "dp", &NodeShare::axis);
  const std::int64_t alone = choices.place.empty() ? choices.dp : 1;
  const std::int64_t inside = share == choices.place.end() ? alone : share->count;
  if (inside % shard != 0 && shard % inside != 0) return std::nullopt;
  if (which == Repeating::Shares) {
    return ReplicaGroup{sets, std::max<std::int64_t>(1, inside / shard)};
  }
  const std::int64_t parts = choices.place.empty() ? choices.cp : repeats_in_node(choices) / inside;
  return ReplicaGroup{shard * choices.cp, std::min(inside, shard) * parts};
}

const TransferLoad& Bounds::group_price(TransferKind kind, BufferElement element,
                                        const ReplicaGroup& group, std::int64_t elements) {
  const auto [entry, added] = group_prices_.try_emplace({kind, element, group, elements});
  TransferLoad& load = entry->second;
  if (!added || group.members == 1) return load;
  Transfer transfer{.kind = kind, .purpose = Purpose::Gradients};
  transfer.group = devices_of(group);
  cut_among(transfer, elements, element);
  const Seconds alone = setting_.costs->transfer(transfer, batch_.precision).time;
  load.seconds = alone.value();
  if (!setting_.engine.share_links) return load;
  const auto [ports, first] = group_ports_.try_emplace({kind, group});
  if (first) ports->second = port_shares(links_, kind, transfer.group, transfer.group.front());
  load.ports = port_load(ports->second, bytes_sent(transfer, batch_.precision), alone);
  return load;
}

// Of fewer an element takes no less.
TransferLoad Bounds::group_rate(TransferKind kind, BufferElement element, const ReplicaGroup& group,
                                std::int64_t most) {
  const std::int64_t elements =
      std::max<std::int64_t>(1, (most + group.members - 1) / group.members) * group.members;
  const TransferLoad& all = group_price(kind, element, group, elements);
  TransferLoad rate{.seconds = all.seconds / static_cast<double>(elements)};
  // Shares of links are rounded.
  constexpr double kShares = 1 - 1e-3;
  rate.ports.add(all.ports, kShares / static_cast<double>(elements));
  return rate;
}

}  // namespace meshwright

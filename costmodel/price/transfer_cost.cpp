#include "costmodel/price/transfer_cost.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace meshwright {
namespace {

// The two protocols of rings and how the volume and the steps enter.
Seconds protocol_time(const ProtocolFit& fit, double steps, double volume, double bandwidth) {
  return Seconds(fit.base_s + steps * fit.hop_s + volume / (bandwidth * fit.share) +
                 fit.ramp_s * std::sqrt(volume));
}

Seconds time_in_node(TransferKind kind, Bytes size, const GroupShape& group,
                     const GroupLinks& links, const LinkFit& fit) {
  const double volume = bytes_sent(kind, size, group.members);
  const double bandwidth = links.inside.value();
  const auto steps = static_cast<double>(ring_steps(kind, group).inside);
  if (kind == TransferKind::AllToAll) {
    return protocol_time(fit.all_to_all, steps, volume, bandwidth);
  }
  if (fit.in_switch && nccl_choice(kind, size, group, links) == Algorithm::InSwitch) {
    return std::min(protocol_time(*fit.in_switch, 0, volume, bandwidth),
                    protocol_time(fit.small, steps, volume, bandwidth));
  }
  return std::min(protocol_time(fit.small, steps, volume, bandwidth),
                  protocol_time(fit.large, steps, volume, bandwidth));
}

// Everybody sends to everybody: what leaves the node goes through the member's own network card.
Seconds all_to_all_time(Bytes size, const GroupShape& group, const GroupLinks& links,
                        const LinkFit& fit, const NetworkFit& network) {
  const auto members = static_cast<double>(group.members);
  const double leaving = static_cast<double>(size.value()) *
                         (members - static_cast<double>(group.fewest_on_node)) / members;
  return Seconds(network.base_s + (members - 1) * fit.all_to_all.hop_s +
                 leaving / (links.network.value() * network.share));
}

Seconds time_across_nodes(TransferKind kind, Bytes size, const GroupShape& group,
                          const GroupLinks& links, const LinkFit& fit, const NetworkFit& network) {
  if (kind == TransferKind::AllToAll) return all_to_all_time(size, group, links, fit, network);
  const double cards = is_pair(kind) ? 1 : static_cast<double>(group.fewest_on_node);
  double bandwidth = links.network.value() * network.share * cards;
  if (group.members > group.nodes) {
    bandwidth = std::min(bandwidth, links.inside.value() * fit.large.share);
  }
  const double volume = bytes_sent(kind, size, group.members);
  RingSteps steps = ring_steps(kind, group);
  if (nccl_choice(kind, size, group, links) == Algorithm::Tree) {
    const auto levels = static_cast<std::int64_t>(std::ceil(std::log2(group.nodes)));
    steps = {.inside = 2 * (group.most_on_node - 1), .network = 2 * levels};
  }
  return Seconds(network.base_s + static_cast<double>(steps.network) * network.hop_s +
                 static_cast<double>(steps.inside) * fit.large.hop_s + volume / bandwidth +
                 network.ramp_s * std::sqrt(volume));
}

}  // namespace

GroupShape group_shape(const Cluster& cluster, const std::vector<DeviceId>& group) {
  std::map<NodeId, std::int64_t> on_node;
  for (const DeviceId device : group) ++on_node[node_of(cluster, device)];
  GroupShape shape{.members = static_cast<std::int64_t>(group.size()),
                   .nodes = static_cast<std::int64_t>(on_node.size()),
                   .fewest_on_node = on_node.begin()->second};
  for (const auto& [node, count] : on_node) {
    shape.fewest_on_node = std::min(shape.fewest_on_node, count);
    shape.most_on_node = std::max(shape.most_on_node, count);
  }
  return shape;
}

GroupLinks group_links(const Cluster& cluster, const std::vector<DeviceId>& group,
                       const LinkFit& fit) {
  // Groups of a level are ranges, so the level that joins the ends joins what is between them.
  const auto slowest = [&](const std::vector<DeviceId>& members, DeviceId first, DeviceId last) {
    const auto id = level_between(cluster, first, last);
    if (!id) return BytesPerSecond(0);
    BytesPerSecond bandwidth = bandwidth_of(cluster, *id, members.front());
    for (const DeviceId member : members) {
      bandwidth = std::min(bandwidth, bandwidth_of(cluster, *id, member));
    }
    return bandwidth / level(cluster, *id).oversubscription.value;
  };
  const auto [first, last] = std::ranges::minmax(group);
  const bool one_node = node_of(cluster, first) == node_of(cluster, last);
  GroupLinks links{.in_switch = fit.in_switch.has_value()};
  if (one_node) {
    links.inside = slowest(group, first, last);
    return links;
  }
  links.network = slowest(group, first, last);
  std::map<NodeId, std::vector<DeviceId>> by_node;
  for (const DeviceId device : group) by_node[node_of(cluster, device)].push_back(device);
  for (const auto& [node, members] : by_node) {
    if (members.size() == 1) continue;
    const auto [low, high] = std::ranges::minmax(members);
    const BytesPerSecond inside = slowest(members, low, high);
    if (links.inside == BytesPerSecond(0) || inside < links.inside) links.inside = inside;
  }
  return links;
}

Seconds transfer_time(TransferKind kind, Bytes size, const GroupShape& group,
                      const GroupLinks& links, const LinkFit& fit, const NetworkFit& network) {
  if (group.members == 1) return Seconds(0);
  if (group.nodes == 1) return time_in_node(kind, size, group, links, fit);
  return time_across_nodes(kind, size, group, links, fit, network);
}

BytesPerSecond host_link_capacity(const Host& host) {
  // Measured on H200 over PCIe 5: 55.4 of 63 GB/s to the device, 55.1 back (ml-engineering,
  // network chapter).
  constexpr double kShare = 0.88;
  return host.bandwidth.value * kShare;
}

Seconds host_copy_time(Bytes size, const Host& host, std::int64_t sharing) {
  constexpr Seconds kLaunch = 10.0_us;
  const auto users = static_cast<double>(std::max<std::int64_t>(sharing, 1));
  return kLaunch + size / (host_link_capacity(host) / users);
}

}  // namespace meshwright

#include "costmodel/cluster/cluster.h"

#include <algorithm>
#include <cassert>

namespace meshwright {
namespace {

// Where a node group starts in the numbering of nodes and of devices.
struct GroupStart {
  const NodeGroup& group;
  std::size_t node;
  std::size_t device;
};

std::size_t node_size(const Cluster& cluster, const NodeGroup& group) {
  return static_cast<std::size_t>(cluster.node_types[group.type].devices);
}

// The first node group for which `inside(start, nodes, devices)` holds.
template <class Inside>
GroupStart find_group(const Cluster& cluster, Inside inside) {
  std::size_t node = 0;
  std::size_t device = 0;
  for (const NodeGroup& group : cluster.nodes) {
    const auto nodes = static_cast<std::size_t>(group.count);
    const std::size_t devices = nodes * node_size(cluster, group);
    if (inside(node + nodes, device + devices)) return {group, node, device};
    node += nodes;
    device += devices;
  }
  assert(false && "the number is beyond the last node");
  return {cluster.nodes.back(), node, device};
}

GroupStart group_with(const Cluster& cluster, DeviceId device) {
  return find_group(
      cluster, [&](std::size_t, std::size_t devices_end) { return device.index() < devices_end; });
}

GroupStart group_with(const Cluster& cluster, NodeId node) {
  return find_group(cluster,
                    [&](std::size_t nodes_end, std::size_t) { return node.index() < nodes_end; });
}

// The devices of nodes [first, last).
DeviceRange devices_of_nodes(const Cluster& cluster, std::size_t first, std::size_t last) {
  const DeviceRange front = devices_of(cluster, NodeId(first));
  const DeviceRange back = devices_of(cluster, NodeId(last - 1));
  return {front.first, back.first + back.count - front.first};
}

// Which of consecutive groups of `span` among `members` holds `member`: its [first, last).
std::pair<std::size_t, std::size_t> slice(std::size_t member, std::optional<std::int64_t> span,
                                          std::size_t members) {
  if (!span) return {0, members};
  const auto size = static_cast<std::size_t>(*span);
  const std::size_t first = member / size * size;
  return {first, std::min(first + size, members)};
}

const DeviceException* find_exception(const Cluster& cluster, DeviceId device) {
  const auto found =
      std::ranges::lower_bound(cluster.exceptions, device, {}, &DeviceException::device);
  return found != cluster.exceptions.end() && found->device == device ? &*found : nullptr;
}

// Sums an optional amount of each node type over its nodes.
template <class T, class PerNode>
std::optional<T> sum_over_nodes(const Cluster& cluster, PerNode per_node) {
  T total{};
  for (const NodeGroup& group : cluster.nodes) {
    const std::optional<T> amount = per_node(cluster.node_types[group.type]);
    if (!amount) return std::nullopt;
    total += *amount * static_cast<typename T::rep>(group.count);
  }
  return total;
}

}  // namespace

std::int64_t node_count(const Cluster& cluster) {
  std::int64_t count = 0;
  for (const NodeGroup& group : cluster.nodes) count += group.count;
  return count;
}

std::int64_t device_count(const Cluster& cluster) {
  std::int64_t count = 0;
  for (const NodeGroup& group : cluster.nodes) {
    count += group.count * cluster.node_types[group.type].devices;
  }
  return count;
}

NodeId node_of(const Cluster& cluster, DeviceId device) {
  const GroupStart start = group_with(cluster, device);
  return NodeId(start.node + (device.index() - start.device) / node_size(cluster, start.group));
}

DeviceRange devices_of(const Cluster& cluster, NodeId node) {
  const GroupStart start = group_with(cluster, node);
  const std::size_t size = node_size(cluster, start.group);
  return {start.device + (node.index() - start.node) * size, size};
}

const NodeType& node_type_of(const Cluster& cluster, NodeId node) {
  return cluster.node_types[group_with(cluster, node).group.type];
}

const DeviceType& device_type_of(const Cluster& cluster, DeviceId device) {
  return cluster.node_types[group_with(cluster, device).group.type].device;
}

const LinkLevel& level(const Cluster& cluster, LevelId id) {
  return id.node_type ? cluster.node_types[*id.node_type].levels[id.index]
                      : cluster.network[id.index];
}

std::vector<LevelId> levels(const Cluster& cluster) {
  std::vector<LevelId> ids;
  for (std::size_t type = 0; type < cluster.node_types.size(); ++type) {
    for (std::size_t i = 0; i < cluster.node_types[type].levels.size(); ++i) {
      ids.push_back({type, i});
    }
  }
  for (std::size_t i = 0; i < cluster.network.size(); ++i) ids.push_back({std::nullopt, i});
  return ids;
}

std::vector<DeviceRange> groups_of(const Cluster& cluster, LevelId id) {
  std::vector<DeviceRange> groups;
  const auto devices = static_cast<std::size_t>(device_count(cluster));
  for (std::size_t device = 0; device < devices;) {
    const auto group = group_of(cluster, id, DeviceId(device));
    if (group) groups.push_back(*group);
    const DeviceRange node = devices_of(cluster, node_of(cluster, DeviceId(device)));
    device = group ? group->first + group->count : node.first + node.count;
  }
  return groups;
}

std::optional<DeviceRange> group_of(const Cluster& cluster, LevelId id, DeviceId device) {
  const auto span = level(cluster, id).span;
  const NodeId node = node_of(cluster, device);
  if (!id.node_type) {
    const auto [first, last] =
        slice(node.index(), span, static_cast<std::size_t>(node_count(cluster)));
    return devices_of_nodes(cluster, first, last);
  }
  if (group_with(cluster, node).group.type != *id.node_type) return std::nullopt;
  const DeviceRange in_node = devices_of(cluster, node);
  const auto [first, last] = slice(device.index() - in_node.first, span, in_node.count);
  return DeviceRange{in_node.first + first, last - first};
}

std::optional<LevelId> level_between(const Cluster& cluster, DeviceId a, DeviceId b) {
  if (a == b) return std::nullopt;
  const std::size_t type = group_with(cluster, a).group.type;
  const auto joins = [&](LevelId id) { return group_of(cluster, id, a)->contains(b); };
  for (std::size_t i = 0; i < cluster.node_types[type].levels.size(); ++i) {
    if (joins({type, i})) return LevelId{type, i};
  }
  for (std::size_t i = 0; i < cluster.network.size(); ++i) {
    if (joins({std::nullopt, i})) return LevelId{std::nullopt, i};
  }
  assert(false && "the outermost level joins all devices");
  return std::nullopt;
}

BytesPerSecond typical_bandwidth(const Cluster& cluster, LevelId id, DeviceId device) {
  const LinkLevel& links = level(cluster, id);
  if (id.node_type) return links.bandwidth.value;
  const auto& own = cluster.node_types[group_with(cluster, device).group.type].network_bandwidth;
  const auto found = own.find(links.name);
  return found == own.end() ? links.bandwidth.value : found->second.value;
}

BytesPerSecond bandwidth_of(const Cluster& cluster, LevelId id, DeviceId device) {
  if (const DeviceException* exception = find_exception(cluster, device)) {
    const auto own = exception->bandwidth.find(level(cluster, id).name);
    if (own != exception->bandwidth.end()) return own->second;
  }
  return typical_bandwidth(cluster, id, device);
}

Fabric fabric_of(const Cluster& cluster, LevelId id) {
  const auto& fabric = level(cluster, id).fabric;
  if (fabric) return fabric->value;
  return usual_fabric(!id.node_type);
}

DeviceRange domain_of(const Cluster& cluster, DeviceId device) {
  DeviceRange domain = devices_of(cluster, node_of(cluster, device));
  for (std::size_t i = 0; i < cluster.network.size(); ++i) {
    const LevelId id{std::nullopt, i};
    if (!joins_nodes(fabric_of(cluster, id))) break;
    domain = *group_of(cluster, id, device);
  }
  return domain;
}

double speed_of(const Cluster& cluster, DeviceId device) {
  const DeviceException* exception = find_exception(cluster, device);
  return exception ? exception->speed : 1;
}

Bytes total_memory(const Cluster& cluster) {
  return *sum_over_nodes<Bytes>(cluster, [](const NodeType& type) {
    return std::optional(type.device.memory.value * type.devices);
  });
}

std::optional<FlopsPerSecond> total_peak(const Cluster& cluster, Precision precision) {
  return sum_over_nodes<FlopsPerSecond>(cluster, [&](const NodeType& type) {
    const auto peak = type.device.peak.find(precision);
    return peak == type.device.peak.end()
               ? std::nullopt
               : std::optional(peak->second.value * static_cast<double>(type.devices));
  });
}

std::optional<Bytes> total_host_memory(const Cluster& cluster) {
  return sum_over_nodes<Bytes>(cluster, [](const NodeType& type) {
    return type.host ? std::optional(type.host->memory.value) : std::nullopt;
  });
}

std::optional<DollarsPerHour> total_price(const Cluster& cluster) {
  return sum_over_nodes<DollarsPerHour>(cluster, [](const NodeType& type) {
    return type.device.price
               ? std::optional(type.device.price->value * static_cast<double>(type.devices))
               : std::nullopt;
  });
}

}  // namespace meshwright

#include "costmodel/cluster/cluster_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t count = 0;
  const auto end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, count);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  if (count < 1 || count > kMostDevices) return std::nullopt;
  return count;
}

// How many whole nodes a shape has, and the devices of the smaller last one.
struct NodeCounts {
  std::int64_t whole;
  std::int64_t whole_devices;
  std::int64_t rest_devices;
};

NodeCounts node_counts(const NodeType& type, const ClusterShape& shape) {
  if (shape.nodes) return {*shape.nodes, shape.devices, 0};
  return {shape.devices / type.devices, type.devices, shape.devices % type.devices};
}

}  // namespace

std::optional<ClusterShape> parse_cluster_shape(std::string_view text) {
  const auto cross = text.find('x');
  const auto devices = parse_count(text.substr(cross == text.npos ? 0 : cross + 1));
  if (!devices) return std::nullopt;
  if (cross == text.npos) return ClusterShape{std::nullopt, *devices};
  const auto nodes = parse_count(text.substr(0, cross));
  if (!nodes) return std::nullopt;
  return ClusterShape{nodes, *devices};
}

NodeType with_devices(const NodeType& type, std::int64_t devices) {
  assert(devices >= 1 && devices <= type.devices);
  if (devices == type.devices) return type;
  NodeType smaller = type;
  smaller.name = fmt::format("{} ({} of {} devices)", type.name, devices, type.devices);
  smaller.devices = devices;
  smaller.levels.clear();
  for (LinkLevel level : type.levels) {
    if (devices == 1) break;
    const bool spans_node = level.span.value_or(devices) >= devices;
    if (spans_node) level.span.reset();
    smaller.levels.push_back(level);
    if (spans_node) break;
  }
  if (smaller.host) {
    auto& sharing = smaller.host->devices_per_link.value;
    sharing = std::min(sharing, devices);
  }
  return smaller;
}

std::optional<std::string> shape_problem(const Cluster& cluster, const ClusterShape& shape) {
  if (cluster.nodes.size() != 1) {
    return "it has several groups of nodes, and a shape is for clusters with one";
  }
  const NodeType& type = cluster.node_types[cluster.nodes.front().type];
  const NodeCounts counts = node_counts(type, shape);
  if (counts.whole_devices > type.devices) {
    return fmt::format("its nodes have at most {} devices", type.devices);
  }
  if (counts.whole * counts.whole_devices + counts.rest_devices > kMostDevices) {
    return fmt::format("more than {} devices", kMostDevices);
  }
  const std::int64_t nodes = counts.whole + (counts.rest_devices > 0 ? 1 : 0);
  if (nodes > 1 && cluster.network.empty()) {
    return fmt::format("it has no network to connect {} nodes", nodes);
  }
  if (nodes > 1 && cluster.network.back().span.value_or(nodes) < nodes) {
    return fmt::format("its network \"{}\" spans at most {} nodes",
                       printable(cluster.network.back().name), *cluster.network.back().span);
  }
  return std::nullopt;
}

Cluster with_shape(const Cluster& cluster, const ClusterShape& shape) {
  assert(!shape_problem(cluster, shape));
  const NodeType& type = cluster.node_types[cluster.nodes.front().type];
  const NodeCounts counts = node_counts(type, shape);
  Cluster shaped = cluster;
  shaped.node_types.clear();
  shaped.nodes.clear();
  const auto add = [&](std::int64_t devices, std::int64_t nodes) {
    if (devices == 0 || nodes == 0) return;
    shaped.nodes.push_back({shaped.node_types.size(), nodes});
    shaped.node_types.push_back(with_devices(type, devices));
  };
  add(counts.whole_devices, counts.whole);
  add(counts.rest_devices, 1);
  return shaped;
}

}  // namespace meshwright

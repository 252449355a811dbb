#include "cli/collective_option.h"

#include <fmt/format.h>

#include <array>

#include "cli/profile_option.h"
#include "costmodel/base/input_error.h"
#include "costmodel/cluster/cluster_shape.h"
#include "costmodel/price/fitted_costs.h"
#include "costmodel/price/profile_costs.h"

namespace meshwright {
namespace {

constexpr std::array kCollectives = {TransferKind::AllReduce, TransferKind::AllGather,
                                     TransferKind::ReduceScatter, TransferKind::AllToAll,
                                     TransferKind::Send};

TransferKind collective_of(const std::string& text) {
  for (const TransferKind kind : kCollectives) {
    if (to_text(kind) == text) return kind;
  }
  throw UsageError(
      fmt::format("--collective {}: expected all_reduce, all_gather, reduce_scatter, "
                  "all_to_all or send",
                  printable(text)));
}

// Devices of a collective: so many of each of so many nodes.
struct HostGroup {
  std::int64_t nodes = 1, on_each = 1;
};

HostGroup group_of(const CollectiveOptions& options, const Cluster& cluster) {
  const std::int64_t each = cluster.node_types.front().devices;
  if (!options.group) return {node_count(cluster), each};
  const auto shape = parse_cluster_shape(*options.group);
  if (!shape || !shape->nodes || *shape->nodes * shape->devices < 2) {
    throw UsageError(fmt::format(
        "--group {}: expected nodes x devices of each, such as 64x8, two devices or more",
        printable(*options.group)));
  }
  return {*shape->nodes, shape->devices};
}

std::vector<Bytes> sizes_of(const CollectiveOptions& options) {
  if (!options.bytes) {
    std::vector<Bytes> sizes;
    for (std::int64_t size = 8; size <= std::int64_t{8} << 30; size *= 2) sizes.emplace_back(size);
    return sizes;
  }
  const bool plain = options.bytes->find_first_not_of("0123456789") == std::string::npos;
  const auto bytes = parse_quantity<Bytes>(plain ? *options.bytes + " B" : *options.bytes);
  if (!bytes || *bytes < Bytes(1)) {
    throw UsageError(
        fmt::format("--bytes {}: expected an amount such as \"25 MB\"", printable(*options.bytes)));
  }
  return {*bytes};
}

// The cluster with as many nodes as the group needs: a preset does not say how many there are.
Cluster with_nodes(Cluster cluster, const HostGroup& group, bool preset, const std::string& text) {
  for (const NodeType& type : cluster.node_types) {
    if (type.devices >= group.on_each) continue;
    throw UsageError(fmt::format("--group {}: a node has {} device{}", printable(text),
                                 type.devices, type.devices == 1 ? "" : "s"));
  }
  const ClusterShape shape{group.nodes, cluster.node_types.front().devices};
  if (group.nodes <= node_count(cluster)) return cluster;
  if (!preset) {
    throw UsageError(
        fmt::format("--group {}: the cluster has {} nodes", printable(text), node_count(cluster)));
  }
  if (const auto problem = shape_problem(cluster, shape)) {
    throw UsageError(fmt::format("--group {}: {}", printable(text), *problem));
  }
  return with_shape(cluster, shape);
}

std::vector<DeviceId> devices_of_group(const Cluster& cluster, const HostGroup& group) {
  std::vector<DeviceId> devices;
  for (std::int64_t node = 0; node < group.nodes; ++node) {
    const DeviceRange range = devices_of(cluster, NodeId(static_cast<std::size_t>(node)));
    for (std::int64_t i = 0; i < group.on_each; ++i) {
      devices.emplace_back(range.first + static_cast<std::size_t>(i));
    }
  }
  return devices;
}

}  // namespace

std::vector<PricedCollective> price_collectives(const CollectiveOptions& options,
                                                const Cluster& described, bool preset,
                                                const std::optional<std::string>& profile,
                                                const Session& session) {
  if (!options.collective) {
    throw UsageError("--group and --bytes are of a --collective: name one, such as all_reduce");
  }
  const TransferKind kind = collective_of(*options.collective);
  const HostGroup group = group_of(options, described);
  const Cluster cluster = with_nodes(described, group, preset, options.group.value_or(""));
  std::vector<DeviceId> devices = devices_of_group(cluster, group);
  if (devices.size() < 2) throw UsageError("--collective: one device has nobody to talk to");
  if (is_pair(kind)) devices = {devices.front(), devices.back()};
  const FittedCosts fitted(cluster, read_fits(session.data / "fits.json"),
                           read_software(session.data / "software.json").front().prices);
  const MeasuredTimes times(profile ? profile_from_option(*profile, session) : Profile());
  const ProfileCosts costs(times, cluster, fitted);
  std::vector<PricedCollective> priced;
  for (const Bytes bytes : sizes_of(options)) {
    const auto measured = costs.measured(kind, bytes, devices);
    const CollectiveTime carried = fitted.carried(kind, bytes, devices);
    priced.push_back({.kind = kind,
                      .nodes = group.nodes,
                      .devices = static_cast<std::int64_t>(devices.size()),
                      .bytes = bytes,
                      .time = measured.value_or(carried.time),
                      .algorithm = carried.algorithm,
                      .origin = measured ? PriceOrigin::Measured : fitted.origin(devices.front())});
    if (measured) priced.back().algorithm.reset();
  }
  return priced;
}

}  // namespace meshwright

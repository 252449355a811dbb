#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/cluster_view.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json number(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return value;
  } else {
    return value.value();
  }
}

template <class T>
Json known(const std::optional<T>& value) {
  return value ? number(*value) : Json();
}

template <class T>
Json sourced(const Sourced<T>& value) {
  return {
      {"value", number(value.value)}, {"origin", to_text(value.origin)}, {"source", value.source}};
}

template <class T>
Json sourced(const std::optional<Sourced<T>>& value) {
  return value ? sourced(*value) : Json();
}

Json device_json(const DeviceType& device) {
  Json peak = Json::object();
  for (const auto& [precision, rate] : device.peak) {
    peak[std::string(to_text(precision))] = sourced(rate);
  }
  return {{"name", device.name},
          {"memory_bytes", sourced(device.memory)},
          {"memory_bandwidth_bytes_per_s", sourced(device.memory_bandwidth)},
          {"peak_flops_per_s", peak},
          {"multiprocessors", sourced(device.multiprocessors)},
          {"l2_bytes", sourced(device.l2)},
          {"matmul_share", sourced(device.matmul_share)},
          {"price_dollars_per_h", sourced(device.price)}};
}

Json host_json(const Host& host) {
  return {{"memory_bytes", sourced(host.memory)},
          {"bandwidth_bytes_per_s", sourced(host.bandwidth)},
          {"devices_per_link", sourced(host.devices_per_link)}};
}

Json node_type_json(const NodeType& node) {
  Json network = Json::object();
  for (const auto& [name, bandwidth] : node.network_bandwidth) network[name] = sourced(bandwidth);
  return {{"name", node.name},
          {"devices", node.devices},
          {"device", device_json(node.device)},
          {"host", node.host ? host_json(*node.host) : Json()},
          {"network_bandwidth_bytes_per_s", network}};
}

Json level_json(const Cluster& cluster, LevelId id) {
  const LinkLevel& links = level(cluster, id);
  std::vector<std::size_t> sizes;
  for (const DeviceRange& group : groups_of(cluster, id)) sizes.push_back(group.count);
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  return {{"name", links.name},
          {"node_type", id.node_type ? Json(cluster.node_types[*id.node_type].name) : Json()},
          {"groups", sizes.size()},
          {"smallest_group_devices", *least},
          {"largest_group_devices", *most},
          {"bandwidth_bytes_per_s", sourced(links.bandwidth)},
          {"latency_s", sourced(links.latency)},
          {"fabric", to_text(fabric_of(cluster, id))},
          {"oversubscription", sourced(links.oversubscription)},
          {"rails", links.rails}};
}

Json totals_json(const Cluster& cluster) {
  Json peak = Json::object();
  for (const Precision precision : kPrecisions) {
    peak[std::string(to_text(precision))] = known(total_peak(cluster, precision));
  }
  return {{"memory_bytes", number(total_memory(cluster))},
          {"host_memory_bytes", known(total_host_memory(cluster))},
          {"peak_flops_per_s", peak},
          {"price_dollars_per_h", known(total_price(cluster))}};
}

}  // namespace

Json cluster_json(const Cluster& cluster) {
  Json document = {{"name", cluster.name},
                   {"description", cluster.description ? Json(*cluster.description) : Json()},
                   {"nodes", node_count(cluster)},
                   {"devices", device_count(cluster)}};
  document.update(totals_json(cluster));
  document["node_groups"] = Json::array();
  for (const NodeGroup& group : cluster.nodes) {
    document["node_groups"].push_back(
        {{"type", cluster.node_types[group.type].name}, {"count", group.count}});
  }
  document["node_types"] = Json::array();
  for (const NodeType& node : cluster.node_types) {
    document["node_types"].push_back(node_type_json(node));
  }
  document["levels"] = Json::array();
  for (const LevelId id : levels(cluster)) {
    document["levels"].push_back(level_json(cluster, id));
  }
  document["exceptions"] = Json::array();
  for (const DeviceException& exception : cluster.exceptions) {
    Json bandwidth = Json::object();
    for (const auto& [name, value] : exception.bandwidth) bandwidth[name] = value.value();
    document["exceptions"].push_back({{"device", exception.device.index()},
                                      {"speed", exception.speed},
                                      {"bandwidth_bytes_per_s", bandwidth}});
  }
  return document;
}

}  // namespace meshwright

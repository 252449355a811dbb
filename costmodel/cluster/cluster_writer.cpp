#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "costmodel/cluster/cluster_file.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view plain_unit(Bytes) { return "B"; }
constexpr std::string_view plain_unit(BytesPerSecond) { return "B/s"; }
constexpr std::string_view plain_unit(FlopsPerSecond) { return "FLOP/s"; }
constexpr std::string_view plain_unit(Seconds) { return "s"; }
constexpr std::string_view plain_unit(DollarsPerHour) { return "$/h"; }

// As a person writes it where that says it whole.
template <class Tag, class Rep>
Json value_json(Quantity<Tag, Rep> amount) {
  const std::string text = to_text(amount);
  if (parse_quantity<Quantity<Tag, Rep>>(text) == amount) return text;
  return fmt::format("{} {}", amount.value(), plain_unit(amount));
}
Json value_json(double number) { return number; }
Json value_json(std::int64_t number) { return number; }
Json value_json(Fabric fabric) { return to_text(fabric); }

template <class T>
Json sourced_json(const Sourced<T>& sourced) {
  return {{"value", value_json(sourced.value)},
          {"origin", to_text(sourced.origin)},
          {"source", sourced.source}};
}

template <class T>
void add(Json& object, const char* field, const std::optional<Sourced<T>>& sourced) {
  if (sourced) object[field] = sourced_json(*sourced);
}

Json device_json(const DeviceType& device) {
  Json object = {{"memory", sourced_json(device.memory)},
                 {"memory_bandwidth", sourced_json(device.memory_bandwidth)},
                 {"peak", Json::object()}};
  for (const auto& [precision, peak] : device.peak) {
    object["peak"][std::string(to_text(precision))] = sourced_json(peak);
  }
  add(object, "multiprocessors", device.multiprocessors);
  add(object, "l2", device.l2);
  add(object, "matmul_share", device.matmul_share);
  add(object, "price", device.price);
  return object;
}

Json level_json(const LinkLevel& level, bool network) {
  Json object = {{"name", level.name}};
  if (level.span) object["span"] = *level.span;
  add(object, "fabric", level.fabric);
  object["bandwidth"] = sourced_json(level.bandwidth);
  object["latency"] = sourced_json(level.latency);
  object["oversubscription"] = sourced_json(level.oversubscription);
  if (network) object["rails"] = level.rails;
  return object;
}

Json levels_json(const std::vector<LinkLevel>& levels, bool network) {
  Json list = Json::array();
  for (const LinkLevel& level : levels) list.push_back(level_json(level, network));
  return list;
}

Json node_json(const NodeType& node) {
  Json object = {{"device", node.device.name}, {"devices", node.devices}};
  if (node.host) {
    object["host"] = {{"memory", sourced_json(node.host->memory)},
                      {"bandwidth", sourced_json(node.host->bandwidth)},
                      {"devices_per_link", sourced_json(node.host->devices_per_link)}};
  }
  if (!node.levels.empty()) object["levels"] = levels_json(node.levels, false);
  for (const auto& [level, bandwidth] : node.network_bandwidth) {
    object["network_bandwidth"][level] = sourced_json(bandwidth);
  }
  return object;
}

Json exceptions_json(const Cluster& cluster) {
  Json list = Json::array();
  for (const DeviceException& exception : cluster.exceptions) {
    Json object = {{"device", exception.device.index()}};
    if (exception.speed != 1) object["speed"] = exception.speed;
    for (const auto& [level, bandwidth] : exception.bandwidth) {
      object["bandwidth"][level] = value_json(bandwidth);
    }
    list.push_back(std::move(object));
  }
  return list;
}

}  // namespace

std::string cluster_file_text(const Cluster& cluster) {
  Json root = {{"format", "meshwright-cluster"}, {"version", 1}, {"name", cluster.name}};
  if (cluster.description) root["description"] = *cluster.description;
  root["device_types"] = Json::object();
  root["node_types"] = Json::object();
  for (const NodeType& node : cluster.node_types) {
    root["device_types"][node.device.name] = device_json(node.device);
    root["node_types"][node.name] = node_json(node);
  }
  root["nodes"] = Json::array();
  for (const NodeGroup& group : cluster.nodes) {
    root["nodes"].push_back(
        {{"type", cluster.node_types[group.type].name}, {"count", group.count}});
  }
  if (!cluster.network.empty()) root["network"] = levels_json(cluster.network, true);
  if (!cluster.exceptions.empty()) root["exceptions"] = exceptions_json(cluster);
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace meshwright

#include <fmt/format.h>

#include <set>

#include "import/cluster/imported_cluster.h"

namespace meshwright {
namespace {

std::string value_text(double number) { return fmt::format("{}", number); }
std::string value_text(std::int64_t number) { return fmt::format("{}", number); }
std::string value_text(Fabric fabric) { return std::string(to_text(fabric)); }
template <class Tag, class Rep>
std::string value_text(Quantity<Tag, Rep> amount) {
  return to_text(amount);
}

class AssumedList {
 public:
  template <class T>
  void add(const std::string& name, const Sourced<T>& sourced) {
    if (sourced.origin == Origin::Assumed && seen_.insert(name).second) {
      values.push_back({name, value_text(sourced.value), sourced.source});
    }
  }
  template <class T>
  void add(const std::string& name, const std::optional<Sourced<T>>& sourced) {
    if (sourced) add(name, *sourced);
  }
  void add(const std::string& name, const LinkLevel& level) {
    add(name + " fabric", level.fabric);
    add(name + " bandwidth", level.bandwidth);
    add(name + " latency", level.latency);
    add(name + " oversubscription", level.oversubscription);
  }
  std::vector<AssumedValue> values;

 private:
  std::set<std::string> seen_;
};

}  // namespace

std::vector<AssumedValue> assumed_values(const Cluster& cluster) {
  AssumedList list;
  for (const NodeType& node : cluster.node_types) {
    const DeviceType& device = node.device;
    list.add(device.name + " memory", device.memory);
    list.add(device.name + " memory bandwidth", device.memory_bandwidth);
    for (const auto& [precision, peak] : device.peak) {
      list.add(fmt::format("{} peak {}", device.name, to_text(precision)), peak);
    }
    list.add(device.name + " multiprocessors", device.multiprocessors);
    list.add(device.name + " l2", device.l2);
    list.add(device.name + " matmul share", device.matmul_share);
    if (node.host) {
      list.add(node.name + " host memory", node.host->memory);
      list.add(node.name + " host bandwidth", node.host->bandwidth);
      list.add(node.name + " devices on a host link", node.host->devices_per_link);
    }
    for (const LinkLevel& level : node.levels) list.add(node.name + " " + level.name, level);
    for (const auto& [level, bandwidth] : node.network_bandwidth) {
      list.add(fmt::format("{} bandwidth to {}", node.name, level), bandwidth);
    }
  }
  for (const LinkLevel& level : cluster.network) list.add("network " + level.name, level);
  return list.values;
}

}  // namespace meshwright

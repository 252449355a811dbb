#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/cluster_view.h"
#include "cli/text_table.h"
#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

using TableRows = std::vector<std::vector<std::string>>;

constexpr std::size_t kWidth = 100;

std::string value_text(std::int64_t value) { return std::to_string(value); }
std::string value_text(double value) { return fmt::format("{:.4g}", value); }
template <class Q>
std::string value_text(Q value) {
  return to_text(value);
}

// Sources are long and repeat, so values refer to them by number: "80 GiB  declared [1]".
class SourceList {
 public:
  template <class T>
  std::string origin(const Sourced<T>& value) {
    const auto found = std::find(sources_.begin(), sources_.end(), value.source);
    const auto number = 1 + (found - sources_.begin());
    if (found == sources_.end()) sources_.push_back(value.source);
    return fmt::format("{} [{}]", to_text(value.origin), number);
  }
  template <class T>
  std::vector<std::string> row(std::string name, const Sourced<T>& value) {
    return {std::move(name), value_text(value.value), origin(value)};
  }
  std::string text() const {
    std::string out;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const auto line = fmt::format("[{}] {}", i + 1, printable(sources_[i]));
      out += "  " + wrapped_text(line, kWidth - 2, 6) + "\n";
    }
    return out;
  }

 private:
  std::vector<std::string> sources_;
};

template <class T>
std::string known_text(const std::optional<T>& value) {
  return value ? to_text(*value) : "not known";
}

std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

TableRows total_rows(const Cluster& cluster) {
  TableRows rows = {{"nodes", std::to_string(node_count(cluster))},
                    {"devices", std::to_string(device_count(cluster))},
                    {"memory", to_text(total_memory(cluster))}};
  for (const Precision precision : {Precision::BF16, Precision::FP16}) {
    const auto peak = total_peak(cluster, precision);
    rows.push_back({fmt::format("peak {}", to_text(precision)),
                    peak ? to_text(*peak) : "not on every device"});
  }
  rows.push_back({"host memory", known_text(total_host_memory(cluster))});
  rows.push_back({"price", known_text(total_price(cluster))});
  return rows;
}

TableRows device_rows(const DeviceType& device, SourceList& sources) {
  TableRows rows = {sources.row("memory", device.memory),
                    sources.row("memory bandwidth", device.memory_bandwidth)};
  for (const auto& [precision, peak] : device.peak) {
    rows.push_back(sources.row(fmt::format("peak {}", to_text(precision)), peak));
  }
  const auto add = [&](const char* name, const auto& value) {
    if (value) rows.push_back(sources.row(name, *value));
  };
  add("multiprocessors", device.multiprocessors);
  add("L2 cache", device.l2);
  add("best matmul share", device.matmul_share);
  add("price", device.price);
  return rows;
}

// Device types once each, though several node types may have the same.
std::string devices_text(const Cluster& cluster, SourceList& sources) {
  std::set<std::string> told;
  std::string text;
  for (const NodeType& node : cluster.node_types) {
    if (!told.insert(node.device.name).second) continue;
    text += fmt::format("\nDevice type {}\n{}", printable(node.device.name),
                        table_text(device_rows(node.device, sources), 2));
  }
  return text;
}

std::string group_sizes(const std::vector<DeviceRange>& groups) {
  const auto by_count = [](const DeviceRange& a, const DeviceRange& b) {
    return a.count < b.count;
  };
  const auto [least, most] = std::minmax_element(groups.begin(), groups.end(), by_count);
  return least->count == most->count ? std::to_string(most->count)
                                     : fmt::format("{}-{}", least->count, most->count);
}

// The fabric where the name does not say it, and whether there are rails.
std::string kind_text(const LinkLevel& links) {
  std::string text;
  if (links.fabric && to_text(links.fabric->value) != links.name) {
    text = to_text(links.fabric->value);
  }
  if (links.rails) text += text.empty() ? "rails" : ", rails";
  return text.empty() ? "" : " (" + text + ")";
}

// The levels inside one node type, or those of the network.
std::string levels_text(const Cluster& cluster, std::optional<std::size_t> node_type,
                        SourceList& sources) {
  TableRows rows = {{"links", "groups", "bandwidth/device", "latency", "oversubscribed"}};
  for (const LevelId id : levels(cluster)) {
    if (id.node_type != node_type) continue;
    const LinkLevel& links = level(cluster, id);
    const auto groups = groups_of(cluster, id);
    const auto cell = [&](const auto& value, std::size_t width) {
      return fmt::format("{:<{}} {}", value_text(value.value), width, sources.origin(value));
    };
    rows.push_back({printable(links.name) + kind_text(links),
                    fmt::format("{} of {}", groups.size(), group_sizes(groups)),
                    cell(links.bandwidth, 9), cell(links.latency, 6),
                    cell(links.oversubscription, 3)});
  }
  return rows.size() == 1 ? "" : table_text(rows, 2);
}

std::string node_text(const Cluster& cluster, std::size_t type, SourceList& sources) {
  const NodeType& node = cluster.node_types[type];
  std::int64_t count = 0;
  for (const NodeGroup& group : cluster.nodes) count += group.type == type ? group.count : 0;
  TableRows rows;
  if (node.host) {
    rows.push_back(sources.row("host memory", node.host->memory));
    rows.push_back(sources.row("host link", node.host->bandwidth));
    rows.push_back(sources.row("devices per host link", node.host->devices_per_link));
  }
  for (const auto& [name, bandwidth] : node.network_bandwidth) {
    rows.push_back(sources.row(printable(name) + " bandwidth", bandwidth));
  }
  return fmt::format("\nNode type {}: {} of {} {}\n{}{}", printable(node.name),
                     counted(count, "node"), node.devices, printable(node.device.name),
                     table_text(rows, 2), levels_text(cluster, type, sources));
}

std::string exceptions_text(const Cluster& cluster) {
  TableRows rows;
  for (const DeviceException& exception : cluster.exceptions) {
    std::vector<std::string> row = {fmt::format("device {}", exception.device.index()),
                                    fmt::format("speed {}", value_text(exception.speed))};
    for (const auto& [name, bandwidth] : exception.bandwidth) {
      row.push_back(fmt::format("{} {}", printable(name), to_text(bandwidth)));
    }
    rows.push_back(std::move(row));
  }
  return table_text(rows, 2);
}

}  // namespace

std::string cluster_text(const Cluster& cluster) {
  SourceList sources;
  std::string text = printable(cluster.name);
  if (cluster.description) text += ": " + printable(*cluster.description);
  text += "\n" + table_text(total_rows(cluster), 2);
  text += devices_text(cluster, sources);
  for (std::size_t type = 0; type < cluster.node_types.size(); ++type) {
    text += node_text(cluster, type, sources);
  }
  const std::string network = levels_text(cluster, std::nullopt, sources);
  if (!network.empty()) text += "\nNetwork, innermost level first\n" + network;
  if (!cluster.exceptions.empty()) {
    text += "\nSlower than others of their type\n" + exceptions_text(cluster);
  }
  return text + "\nSources\n" + sources.text();
}

}  // namespace meshwright

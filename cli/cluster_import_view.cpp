#include "cli/cluster_import_view.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/text_table.h"
#include "costmodel/base/input_error.h"
#include "costmodel/cluster/cluster_file.h"

namespace meshwright {
namespace {

using TextRows = std::vector<std::vector<std::string>>;

std::string said_text(const ClusterFacts& facts) {
  if (const auto* node = std::get_if<NodeFacts>(&facts)) {
    return fmt::format("{} devices, {} network cards", node->devices.size(), node->nics.size());
  }
  if (const auto* list = std::get_if<NodeList>(&facts)) {
    return fmt::format("{} nodes", list->hosts.size());
  }
  if (const auto* tree = std::get_if<SwitchTree>(&facts)) {
    return fmt::format("{} switches", tree->switches.size());
  }
  return fmt::format("{} times", std::get<Measurements>(facts).profile.transfers.size());
}

std::string files_text(const std::vector<FactFile>& files) {
  TextRows rows;
  for (const FactFile& file : files) {
    rows.push_back(
        {printable(file.source), std::string(to_text(file.kind)), said_text(file.facts)});
  }
  return table_text(rows, 2);
}

std::string nodes_text(const Cluster& cluster) {
  TextRows rows;
  for (const NodeGroup& group : cluster.nodes) {
    const NodeType& type = cluster.node_types[group.type];
    rows.push_back({type.name,
                    fmt::format("{} x {} {}", group.count, type.devices, type.device.name),
                    to_text(type.device.memory.value)});
    for (const LinkLevel& level : type.levels) {
      rows.back().push_back(fmt::format("{} {}", level.name, to_text(level.bandwidth.value)));
    }
  }
  for (const LinkLevel& level : cluster.network) {
    rows.push_back({"network", level.name, to_text(level.bandwidth.value),
                    std::string(to_text(level.bandwidth.origin))});
  }
  return table_text(rows, 2);
}

std::string compared_text(const ImportedCluster& imported) {
  TextRows rows;
  for (const ComparedCollective& one : imported.compared) {
    rows.push_back({printable(one.source), std::string(to_text(one.kind)), to_text(one.bytes),
                    fmt::format("{}x{}", one.place.nodes, one.place.devices / one.place.nodes),
                    "measured " + to_text(one.measured), "predicted " + to_text(one.predicted)});
  }
  return rows.empty() ? "" : "\nmeasured against predicted\n" + table_text(rows, 2);
}

std::string list_text(const std::string& title, const std::vector<std::string>& lines) {
  std::string text = fmt::format("\n{}\n", title);
  for (const std::string& line : lines) text += "  " + wrapped_text(line, 98, 4) + "\n";
  return text;
}

std::string assumed_text(const Cluster& cluster) {
  std::vector<std::string> lines;
  for (const AssumedValue& value : assumed_values(cluster)) {
    lines.push_back(fmt::format("{} {}: {}", value.name, value.value, printable(value.reason)));
  }
  return lines.empty() ? "" : list_text("assumed: no file says it; edit what you know", lines);
}

}  // namespace

std::string imported_cluster_text(const ImportedCluster& imported,
                                  const std::vector<FactFile>& files, const std::string& out) {
  const Cluster& cluster = imported.cluster;
  std::string text = fmt::format("{}: {} devices in {} nodes\n\nread\n{}\nmade\n{}",
                                 printable(cluster.name), device_count(cluster),
                                 node_count(cluster), files_text(files), nodes_text(cluster));
  text += compared_text(imported);
  if (!imported.contradictions.empty()) {
    std::vector<std::string> lines;
    for (const std::string& line : imported.contradictions) lines.push_back(printable(line));
    text += list_text("contradictions", lines);
  }
  text += assumed_text(cluster);
  if (!out.empty()) text += fmt::format("\nask next\n  meshwright cluster {}\n", printable(out));
  return text;
}

nlohmann::ordered_json imported_cluster_json(const ImportedCluster& imported,
                                             const std::vector<FactFile>& files,
                                             const std::string& out) {
  nlohmann::ordered_json document = {
      {"name", imported.cluster.name},
      {"out", out.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(out)},
      {"devices", device_count(imported.cluster)},
      {"nodes", node_count(imported.cluster)},
      {"files", nlohmann::ordered_json::array()},
      {"contradictions", imported.contradictions},
      {"assumed", nlohmann::ordered_json::array()},
      {"compared", nlohmann::ordered_json::array()},
      {"cluster", nlohmann::ordered_json::parse(cluster_file_text(imported.cluster))}};
  for (const FactFile& file : files) {
    document["files"].push_back({{"file", file.source}, {"kind", to_text(file.kind)}});
  }
  for (const AssumedValue& value : assumed_values(imported.cluster)) {
    document["assumed"].push_back(
        {{"name", value.name}, {"value", value.value}, {"reason", value.reason}});
  }
  for (const ComparedCollective& one : imported.compared) {
    document["compared"].push_back({{"file", one.source},
                                    {"op", to_text(one.kind)},
                                    {"nodes", one.place.nodes},
                                    {"devices", one.place.devices},
                                    {"bytes", one.bytes.value()},
                                    {"measured_s", one.measured.value()},
                                    {"predicted_s", one.predicted.value()}});
  }
  return document;
}

}  // namespace meshwright

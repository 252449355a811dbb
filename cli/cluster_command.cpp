#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/cluster_option.h"
#include "cli/cluster_view.h"
#include "cli/collective_option.h"
#include "cli/collective_view.h"
#include "cli/command.h"
#include "cli/text_table.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/presets.h"
#include "costmodel/cluster/cluster_name.h"

namespace meshwright {
namespace {

constexpr auto kClusterFooter =
    "C is a preset (--list), a cluster file, or either with a shape: h100:4x8 is 4 nodes of 8\n"
    "devices, h100:12 is 12 devices, here is the machine of --profile. What names no cluster ends "
    "with exit code 2, a bad file with "
    "20.\n\nA collective takes the bytes that nccl-tests prints as its size: the whole tensor, of "
    "an "
    "all-to-all\nwhat one device sends. A preset without a shape has as many nodes as the group "
    "needs.\n\nExamples: meshwright cluster h100:4x8\n"
    "          meshwright cluster h100 --collective all_gather --group 64x8 --bytes \"25 MB\"";

struct ClusterOptions {
  std::optional<std::string> cluster, profile;
  CollectiveOptions collective;
  bool list = false;
};

std::string first_peak_text(const Cluster& cluster) {
  const auto& peak = cluster.node_types.front().device.peak;
  for (const Precision precision : {Precision::BF16, Precision::FP16}) {
    const auto found = peak.find(precision);
    if (found == peak.end()) continue;
    return fmt::format("{} {}", to_text(found->second.value), to_text(precision));
  }
  return "";
}

void print_preset_table(const Session& session) {
  std::vector<std::vector<std::string>> rows = {{"preset", "devices", "memory", "peak", ""}};
  for (const std::string& name : preset_names(session.data / "clusters")) {
    const Cluster cluster = find_cluster(name, session.data);
    rows.push_back({name, std::to_string(device_count(cluster)),
                    to_text(cluster.node_types.front().device.memory.value),
                    first_peak_text(cluster), printable(cluster.description.value_or(""))});
  }
  print_text(table_text(rows, 0));
}

void print_preset_json(const Session& session) {
  nlohmann::ordered_json presets = nlohmann::ordered_json::array();
  for (const std::string& name : preset_names(session.data / "clusters")) {
    const Cluster cluster = find_cluster(name, session.data);
    presets.push_back({{"name", name},
                       {"description", cluster.description.value_or("")},
                       {"devices", device_count(cluster)}});
  }
  print_json({{"presets", presets}});
}

void show_cluster(const ClusterOptions& options, const Session& session) {
  if (options.list == options.cluster.has_value()) {
    throw UsageError(
        "give one cluster: a preset (--list shows them), a cluster file, or a shorthand such as "
        "h100:4x8");
  }
  if (options.list) {
    session.json ? print_preset_json(session) : print_preset_table(session);
    return;
  }
  const Cluster cluster = cluster_from_option(*options.cluster, session, options.profile);
  if (options.collective.any()) {
    const auto presets = preset_names(session.data / "clusters");
    const bool preset = std::ranges::find(presets, *options.cluster) != presets.end();
    const auto priced =
        price_collectives(options.collective, cluster, preset, options.profile, session);
    session.json ? print_json(collectives_json(priced)) : print_text(collectives_text(priced));
    return;
  }
  session.json ? print_json(cluster_json(cluster)) : print_text(cluster_text(cluster));
}

}  // namespace

void add_cluster_command(Command& program, Session& session) {
  Command command = program.subcommand(
      "cluster", "Shows what a cluster is made of and where each value comes from", kClusterFooter);
  const auto options = std::make_shared<ClusterOptions>();
  command.text("C", options->cluster, "The cluster to show");
  command.text("--profile", options->profile,
               "The profile that `here` is described in, and that has measured collectives");
  command.text(
      "--collective", options->collective.collective,
      "What a collective takes: all_reduce, all_gather, reduce_scatter, all_to_all or send");
  command.text("--group", options->collective.group,
               "Nodes x devices of each that take part, such as 64x8 (default: all)");
  command.text("--bytes", options->collective.bytes,
               "Its size, such as \"25 MB\" (default: a table from 8 B to 8 GiB)");
  command.flag("--list", options->list, "List the presets");
  add_json_option(command, session);
  command.runs([options, &session] { show_cluster(*options, session); });
  add_cluster_import_command(command, session);
}

}  // namespace meshwright

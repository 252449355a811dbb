#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/cluster_option.h"
#include "cli/cluster_view.h"
#include "cli/command.h"
#include "cli/profile_option.h"
#include "cli/text_table.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/presets.h"
#include "costmodel/cluster/cluster_name.h"
#include "costmodel/cluster/cluster_shape.h"
#include "costmodel/probe/profile_cluster.h"

namespace meshwright {
namespace {

constexpr auto kFooter =
    "C is a preset (--list), a cluster file, or either with a shape: h100:4x8 is 4 nodes of 8\n"
    "devices, h100:12 is 12 devices, here is the machine of --profile. What names no cluster ends "
    "with exit code 2, a bad file with "
    "20.\n\nExample: meshwright cluster h100:4x8";

struct ClusterOptions {
  std::optional<std::string> cluster, profile;
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

// The machine of a profile, as it is or with another number of devices.
Cluster this_machine(const std::string& text, const Session& session,
                     const std::optional<std::string>& profile) {
  if (!profile) {
    throw UsageError(
        "here: give the profile that describes this machine (--profile FILE); `meshwright "
        "benchmark --into FILE` makes one");
  }
  std::optional<std::int64_t> devices;
  if (text != "here") {
    const auto shape = parse_cluster_shape(text.substr(5));
    if (!shape || shape->nodes) {
      throw UsageError(fmt::format("{}: expected here, or here:4 for 4 devices", printable(text)));
    }
    devices = shape->devices;
  }
  return cluster_of_profile(profile_from_option(*profile, session), *profile, devices);
}

void run(const ClusterOptions& options, const Session& session) {
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
  session.json ? print_json(cluster_json(cluster)) : print_text(cluster_text(cluster));
}

}  // namespace

Cluster cluster_from_option(const std::string& text, const Session& session,
                            const std::optional<std::string>& profile) {
  if (text == "here" || text.starts_with("here:")) return this_machine(text, session, profile);
  try {
    return find_cluster(text, session.data);
  } catch (const NameError& error) {
    throw UsageError(error.what());
  }
}

void add_cluster_command(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand(
      "cluster", "Shows what a cluster is made of and where each value comes from");
  const auto options = std::make_shared<ClusterOptions>();
  command->add_option("C", options->cluster, "The cluster to show");
  command->add_option("--profile", options->profile, "The profile that `here` is described in");
  command->add_flag("--list", options->list, "List the presets");
  add_json_option(*command, session);
  command->footer(kFooter);
  command->callback([options, &session] { run(*options, session); });
}

}  // namespace meshwright

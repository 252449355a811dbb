#include "cli/cluster_option.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "cli/profile_option.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/presets.h"
#include "costmodel/cluster/cluster_name.h"
#include "costmodel/cluster/cluster_shape.h"
#include "costmodel/probe/profile_cluster.h"

namespace meshwright {
namespace {

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

void require_precision(const Cluster& cluster, Precision precision) {
  for (const NodeType& type : cluster.node_types) {
    if (type.device.peak.contains(precision)) continue;
    std::vector<std::string_view> known;
    for (const auto& [each, peak] : type.device.peak) known.push_back(to_text(each));
    throw UsageError(fmt::format("--precision {}: {} does not compute in it; it has {}",
                                 to_text(precision), printable(type.device.name),
                                 fmt::join(known, ", ")));
  }
}

}  // namespace meshwright

#include "cli/setting_option.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/cluster_option.h"
#include "cli/model_option.h"
#include "cli/profile_option.h"
#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

ChosenSoftware chosen_software(const SettingOptions& options, const Cluster& cluster) {
  return options.software ? ChosenSoftware{*options.software, ""} : usual_software(cluster);
}

// A --profile without a time of any device of the cluster changes nothing, which nobody means.
void note_unknown_devices(const Profile& profile, const Cluster& cluster, const std::string& name,
                          const Session& session) {
  const auto is_known = [&](const NodeType& node) {
    const auto same = [&](const auto& row) { return row.device == node.device.name; };
    return std::ranges::any_of(profile.kernels, same) ||
           std::ranges::any_of(profile.transfers, same);
  };
  if (session.quiet || std::ranges::any_of(cluster.node_types, is_known)) return;
  fmt::print(stderr, "meshwright: note: {} has no times of {}, so nothing is priced by it\n",
             printable(name), printable(cluster.node_types.front().device.name));
}

Profile profile_for(const SettingOptions& options, const Cluster& cluster, const Session& session) {
  if (!options.profile) return {};
  Profile profile = profile_from_option(*options.profile, session);
  note_unknown_devices(profile, cluster, *options.profile, session);
  return profile;
}

}  // namespace

void add_setting_options(Command& command, SettingOptions& options) {
  add_plan_options(command, options.plan);
  command.text("--cluster", options.cluster, "A preset, a cluster file or h100:4x8");
  command.text("--profile", options.profile,
               "Measured times, used where they are known (`meshwright profile`)");
  command.text("--software", options.software,
               "The training software, or `list` (if not given, what such devices are used with)");
}

AskedSetting::AskedSetting(const SettingOptions& options, const Session& session)
    : cluster(cluster_from_option(options.cluster, session, options.profile)),
      chosen(chosen_software(options, cluster)),
      software(software_from_option(chosen.name, session)),
      graph(model_from_option(options.plan.model, session)),
      model(make_model(graph)),
      fits(read_fits(session.data / "fits.json")),
      profile(profile_for(options, cluster, session)),
      setting(make_setting(model, cluster, software, fits, profile)) {}

Setting AskedSetting::setting_on(const Cluster& other) const {
  return make_setting(model, other, software, fits, profile);
}

AskedPlan asked_plan(const PlanOptions& options, const AskedSetting& asked) {
  return asked_plan(options, asked.graph, asked.software.plan, usual_precision(asked.cluster));
}

}  // namespace meshwright

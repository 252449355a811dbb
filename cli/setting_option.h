#pragma once

#include <optional>
#include <string>

#include "cli/plan_option.h"
#include "cli/session.h"
#include "cli/software_option.h"
#include "costmodel/model/model.h"
#include "costmodel/model/op_graph.h"
#include "costmodel/profile/profile.h"
#include "simulator/report/predict.h"

namespace meshwright {

// The options that say for what, where and at which prices plans are predicted.
struct SettingOptions {
  PlanOptions plan;
  std::string cluster;
  std::optional<std::string> profile, software;
};
// Those of the plan (all but --plan), --cluster, --profile and --software.
void add_setting_options(Command& command, SettingOptions& options);

// Everything that these options name, read once. Throws UsageError and InputError.
struct AskedSetting {
  AskedSetting(const SettingOptions& options, const Session& session);
  AskedSetting(const AskedSetting&) = delete;  // `setting` refers to the others
  AskedSetting& operator=(const AskedSetting&) = delete;

  const Cluster cluster;
  const ChosenSoftware chosen;
  const Software software;
  const OpGraph graph;
  const Model model;
  const Fits fits;
  const Profile profile;
  Setting setting;

  // The same for another cluster, which must outlive the result.
  Setting setting_on(const Cluster& other) const;
};

// What the options ask for: of a plan file the plan, of a short form its choices with the batch.
AskedPlan asked_plan(const PlanOptions& options, const AskedSetting& asked);

}  // namespace meshwright

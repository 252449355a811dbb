#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "costmodel/model/model.h"
#include "costmodel/price/software.h"
#include "simulator/choices/plan_choices.h"
#include "simulator/choices/resolve.h"
#include "simulator/validation/published_run.h"

namespace meshwright {

// A published run in our terms.
struct RunPlan {
  Model model;
  Cluster cluster;
  PlanChoices choices;
  BatchChoice batch;
  Software software;                  // with what the run itself says of kernels and gradients
  std::int64_t optimizer_owners = 1;  // devices that share the state of a weight
  // The device's clocks as a share of what they are without a cap on power.
  double clock_share = 1;
  std::vector<std::string> assumed;  // what the run does not say, or we cannot express exactly
};

// Why a run cannot be predicted: what it does not say, or what we cannot lower yet.
struct NotExpressed {
  std::string why;
};

// `data` is the folder of shipped data. Nothing is read from a run's notes.
std::variant<RunPlan, NotExpressed> express(const PublishedRun& run,
                                            const std::vector<Software>& software,
                                            const std::filesystem::path& data);

}  // namespace meshwright

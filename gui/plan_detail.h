#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/compared_step.h"
#include "gui/asked_search.h"
#include "gui/timeline_lanes.h"
#include "simulator/report/predict.h"

namespace meshwright {

// A plan as it was played, with everything that views show of it. Not changed once it is made.
struct PlanDetail {
  std::shared_ptr<const AskedSearch> asked;  // the plan's model and cluster
  std::string name;                          // its short form, or its file
  std::optional<std::string> file;           // that it was read from
  std::optional<PlanChoices> choices;        // none: no short form says it
  Plan plan;
  Prediction prediction;
  TimelineLanes lanes;
  ComparedStep step;
};

// Both throw a UsageError where there is no such plan.
std::shared_ptr<const PlanDetail> detail_of(const std::shared_ptr<const AskedSearch>& asked,
                                            const PlanChoices& choices);
// As `simulate --plan` takes it.
std::shared_ptr<const PlanDetail> detail_of(const std::shared_ptr<const AskedSearch>& asked,
                                            const std::string& name);

}  // namespace meshwright

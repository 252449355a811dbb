#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "costmodel/model/model.h"
#include "costmodel/price/cost_model.h"
#include "costmodel/price/fit_file.h"
#include "costmodel/price/software.h"
#include "costmodel/profile/profile.h"
#include "simulator/choices/plan_choices.h"
#include "simulator/choices/resolve.h"
#include "simulator/classes/represent.h"
#include "simulator/engine/engine_options.h"
#include "simulator/plan/plan.h"
#include "simulator/program/timeline.h"
#include "simulator/report/report.h"

namespace meshwright {

// What a prediction rests on besides the plan: for what, at which prices, how a step is played, and
// what the software does where a plan does not say and holds besides.
struct Setting {
  const Model& model;      // must outlive this
  const Cluster& cluster;  // must outlive this
  std::shared_ptr<const CostModel> costs;
  EngineOptions engine;
  SoftwareStep step;
  PlanDefaults defaults;
  SoftwareMemory memory;
};

// The one way to a setting. Prices are measured where the profile has them, else fitted for the
// device and the software, else formulas. Links are shared.
Setting make_setting(const Model& model, const Cluster& cluster, const Software& software,
                     const Fits& fits, const Profile& profile = {});

// What is assumed of GPUs where no software is named: our own kernels, what collectives take of a
// device, and rules of thumb for what it holds besides.
Software assumed_on_gpus(const Software& own);

// What choices are where nothing else is said of a plan.
PlanChoices choices_of(const PlanDefaults& defaults, Precision precision);

// Everything that speaks against choices, in words.
using Reasons = std::vector<std::string>;

// The plan that choices stand for, lowered by `predict` without further questions; or why there is
// none.
std::variant<Plan, Reasons> plan_of(const PlanChoices& choices, const BatchChoice& batch,
                                    const Setting& setting);

// A plan's programs played.
struct PlayedPlan {
  Timeline timeline;
  Report report;
};
struct Prediction {
  Represented represented;
  Timeline timeline;  // of the represented programs
  Report report;
};

// What comes of a plan that check_plan has nothing against.
Prediction predict(const Plan& plan, const Setting& setting);
// Where its programs are there already.
PlayedPlan play(const Represented& represented, const Plan& plan, const Setting& setting);

// What a step takes besides what is played, where so many devices share the optimizer state.
Seconds between_steps(const Setting& setting, std::int64_t owners);
// What a device holds and a step takes besides what is played.
Overheads overheads_of(const Plan& plan, const Setting& setting);

}  // namespace meshwright

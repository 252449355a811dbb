#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/options.h"
#include "cli/session.h"
#include "costmodel/cluster/cluster.h"
#include "costmodel/model/model.h"
#include "costmodel/model/op_graph.h"
#include "costmodel/price/cost_model.h"
#include "simulator/choices/resolve.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// The options that say what is to be planned.
struct PlanOptions {
  std::string model, plan;
  std::optional<std::int64_t> global_batch, sequence;
  std::optional<std::string> precision;
  PlanChoices otherwise = {};  // what a short form leaves out
};
void add_plan_options(Command& command, PlanOptions& options);

// How many devices the plan needs, before a cluster is there to check it against.
std::int64_t devices_needed(const PlanOptions& options);

// The choices and the batch of a short form; UsageError if a file is named.
struct ShortForm {
  PlanChoices choices;
  BatchChoice batch;
};
ShortForm short_form_of(const PlanOptions& options, const OpGraph& graph);

// The plan that the options name: a file, or a short form with the batch of the options. A short
// form that cannot be planned or lowered is a UsageError that lists everything wrong with it, a
// file an InputError. `any_cluster`: a file may have been made for another cluster.
Plan plan_from_options(const PlanOptions& options, const OpGraph& graph, const Model& model,
                       const Cluster& cluster, const CostModel& costs, bool any_cluster = false);

}  // namespace meshwright

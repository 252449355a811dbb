#pragma once

#include <string>
#include <variant>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "costmodel/model/model.h"
#include "simulator/lowering/planned_graph.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// Everything wrong with a plan for this model and cluster, in words: what contradicts itself and
// what cannot be lowered yet. Empty: lower makes programs of it.
std::vector<std::string> check_plan(const Plan& plan, const Model& model, const Cluster& cluster);
// The same, or where nothing is wrong what the plan makes of the model.
std::variant<PlannedGraph, std::vector<std::string>> graph_of_checked(const Plan& plan,
                                                                      const Model& model,
                                                                      const Cluster& cluster);

}  // namespace meshwright

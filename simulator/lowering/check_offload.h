#pragma once

#include <string>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "simulator/lowering/planned_graph.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// Whether its devices have one to copy to, if it wants something there; in words.
std::vector<std::string> check_hosts(const Plan& plan, const Cluster& cluster);

// What is wrong with what a plan wants on the host, in words. The rest of the plan must be one that
// check_plan has nothing against.
std::vector<std::string> check_offload(const Plan& plan, const PlannedGraph& planned,
                                       const Cluster& cluster);

}  // namespace meshwright

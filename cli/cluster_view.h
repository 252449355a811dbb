#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "costmodel/cluster/cluster.h"

namespace meshwright {

// What the cluster is made of, for a person: totals, node types, levels, and the numbered sources
// of the values.
std::string cluster_text(const Cluster& cluster);

// The same for a program: plain numbers in SI units, each with its origin.
nlohmann::ordered_json cluster_json(const Cluster& cluster);

}  // namespace meshwright

#pragma once

#include <string>

#include "costmodel/cluster/cluster.h"

namespace meshwright {

// Sixteen hexadecimal digits that differ when anything in the cluster does but its name and the
// words about where values come from. Clusters are small, so this takes microseconds.
std::string hash_of(const Cluster& cluster);

}  // namespace meshwright

#pragma once

#include <string>

#include "costmodel/cluster/cluster.h"
#include "costmodel/model/model.h"

namespace meshwright {

// Sixteen hexadecimal digits that differ when anything a plan depends on does.
std::string source_hash(const Model& model);
std::string source_hash(const Cluster& cluster);

}  // namespace meshwright

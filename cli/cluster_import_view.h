#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "import/cluster/imported_cluster.h"

namespace meshwright {

// What was read and made of it: files, nodes, contradictions, assumed values, what to ask next.
// `out` is where the cluster file was written; empty: nowhere.
std::string imported_cluster_text(const ImportedCluster& imported,
                                  const std::vector<FactFile>& files, const std::string& out);
nlohmann::ordered_json imported_cluster_json(const ImportedCluster& imported,
                                             const std::vector<FactFile>& files,
                                             const std::string& out);

}  // namespace meshwright

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/collective_view.h"
#include "cli/session.h"
#include "costmodel/cluster/cluster.h"

namespace meshwright {

// What `cluster` is asked about collectives.
struct CollectiveOptions {
  std::optional<std::string> collective, group, bytes;
  bool any() const { return collective || group || bytes; }
};

// The collective on the first devices of the first nodes, of the size that was asked for or of a
// table of sizes. A preset gets as many nodes as the group needs. Throws UsageError.
std::vector<PricedCollective> price_collectives(const CollectiveOptions& options,
                                                const Cluster& cluster, bool preset,
                                                const std::optional<std::string>& profile,
                                                const Session& session);

}  // namespace meshwright

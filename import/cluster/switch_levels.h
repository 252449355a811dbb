#pragma once

#include <string>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "import/cluster/host_files.h"

namespace meshwright {

// The network with a level for each level of switches whose groups are equal runs of neighbours
// among the hosts; others are a line in `contradictions`. The levels have the bandwidth of the
// outermost one of `network`.
std::vector<LinkLevel> with_switches(const std::vector<LinkLevel>& network, const SwitchTree& tree,
                                     const std::string& source, const std::vector<HostFiles>& hosts,
                                     std::vector<std::string>& contradictions);

}  // namespace meshwright

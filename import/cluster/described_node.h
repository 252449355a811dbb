#pragma once

#include <string>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "import/cluster/merged_node.h"

namespace meshwright {

// A node as a cluster has it, and how its devices reach the network.
struct DescribedNode {
  NodeType type;
  Sourced<BytesPerSecond> network_bandwidth;   // per device
  std::optional<Sourced<Fabric>> fabric = {};  // none: the cards do not say
  bool rails = false;
};

// What the files say; where they do not, what the preset has, as an assumption. `preset` is a
// cluster of such devices. `notes` gets what a person should know.
DescribedNode describe_node(const MergedNode& node, const Cluster& preset,
                            std::vector<std::string>& notes);

}  // namespace meshwright

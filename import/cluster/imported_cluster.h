#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "import/cluster/fact_file.h"

namespace meshwright {

// What a person says beside the files.
struct ClusterWishes {
  std::string name;                   // of the cluster
  std::optional<std::string> device;  // the preset of its devices, where no file names them
  std::optional<std::int64_t> nodes;  // where no file lists them
};

// A collective that was measured, and what the cluster is predicted to take for it.
struct ComparedCollective {
  std::string source;
  TransferKind kind = TransferKind::AllReduce;
  GroupPlace place;
  Bytes bytes;
  Seconds measured, predicted;
};

struct ImportedCluster {
  Cluster cluster;
  std::vector<std::string> contradictions;  // with what was taken
  std::vector<ComparedCollective> compared;
};

// One cluster from all that the files say: nodes with equal values are one type, in the order of
// the list of hosts or of the switches. What no file says is assumed as in the preset of the
// devices. `data` is the folder of shipped data. Throws InputError where the files leave open what
// cannot be assumed: which devices there are, or whose a file is.
ImportedCluster make_cluster(const std::vector<FactFile>& files, const ClusterWishes& wishes,
                             const std::filesystem::path& data);

// Compares what was measured with what the cluster is predicted to take. A bandwidth between nodes
// that no file says becomes the one that gives the measured time; what differs by more than twice
// is a contradiction.
void compare_collectives(const std::vector<FactFile>& files, const std::filesystem::path& data,
                         ImportedCluster& imported);

// "network fabric latency": every value that is assumed, with its reason.
struct AssumedValue {
  std::string name, value, reason;
};
std::vector<AssumedValue> assumed_values(const Cluster& cluster);

}  // namespace meshwright

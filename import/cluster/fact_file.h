#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "import/cluster/node_facts.h"

namespace meshwright {

// What a file is that says something about a cluster. Nodes are described by the first four, best
// known first.
enum class FactKind {
  NvidiaQuery,     // nvidia-smi -q -x
  NcclTopology,    // NCCL_TOPO_DUMP_FILE
  NvidiaTopology,  // nvidia-smi topo -m
  Hwloc,           // lstopo FILE.xml
  NcclTests,       // what a test of nccl-tests prints, or its -J file
  NodeList,        // SLURM_JOB_NODELIST, or the expression alone
  SwitchTree,      // scontrol show topology
};
std::string_view to_text(FactKind kind);

struct FactFile {
  std::string source;
  FactKind kind = FactKind::NvidiaQuery;
  std::vector<std::string> hosts;  // whose it is, where the person said
  ClusterFacts facts;
};

inline constexpr Bytes kLargestFactFile = 32_MiB;

// Finds out by its content what a file is, and reads it. Throws InputError.
FactFile read_facts(std::string_view text, const std::string& source,
                    std::vector<std::string> hosts = {});

}  // namespace meshwright

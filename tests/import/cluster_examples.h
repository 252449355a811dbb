#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "costmodel/base/json_input.h"
#include "import/cluster/imported_cluster.h"

namespace meshwright {

// Dumps of nodes, written after the public descriptions of the machines and of the formats: DGX
// H100 (8 devices with 18 NVLinks each to switches, 8 cards for computing and 2 for storage), DGX
// A100 (12 NVLinks; 4 PCIe switches with 2 devices and 2 cards of 200 Gb/s each). Addresses and
// host names are made up.
inline std::string example_file(const std::string& name) {
  return read_text_file(MESHWRIGHT_TEST_DATA "/import/" + name, 1_MiB);
}

inline FactFile example_facts(const std::string& name, std::vector<std::string> hosts = {}) {
  return read_facts(example_file(name), name, std::move(hosts));
}

inline ImportedCluster cluster_from(const std::vector<FactFile>& files, ClusterWishes wishes = {}) {
  wishes.name = "mine";
  return make_cluster(files, wishes, MESHWRIGHT_DATA);
}

// What all_reduce_perf prints for one size; the format is that of nccl-tests 2.17.
inline std::string all_reduce_log(int nodes, int devices, double milliseconds) {
  std::string text = "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1\n";
  for (int rank = 0; rank < nodes * devices; ++rank) {
    text += fmt::format(
        "#  Rank {} Group 0 Pid 1 on host{} device {} [0000:0{}:00] NVIDIA H100 "
        "80GB HBM3\n",
        rank, rank / devices, rank % devices, rank % devices);
  }
  text += "#       size  count  type  redop  root  time  algbw  busbw #wrong\n";
  return text + fmt::format("1073741824 268435456 float sum -1 {} 1 1 0\n", milliseconds * 1000);
}

}  // namespace meshwright

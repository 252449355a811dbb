#pragma once

#include <optional>
#include <string>
#include <vector>

#include "import/cluster/fact_file.h"

namespace meshwright {

// A value and the file that says it.
template <class T>
struct Told {
  T value;
  std::string source;
};

// What all files about a node say together.
struct MergedNode {
  Told<std::int64_t> devices;
  std::optional<Told<std::string>> product;
  std::optional<Told<Bytes>> memory;  // of the device that has least
  std::optional<Told<PcieLink>> pcie;
  std::optional<Told<std::vector<std::vector<DevicePath>>>> paths;
  std::optional<Told<std::vector<NicFacts>>> nics;
  std::vector<std::vector<PathKind>> nic_paths;  // [device][nic]; empty: not known
  std::optional<Told<Bytes>> host_memory;
  std::optional<Told<std::int64_t>> devices_per_link;
};

// Where files disagree the one of the kind that knows best is taken, and `contradictions` gets a
// line that says so. Throws InputError for a node with two kinds of devices.
MergedNode merge_node(std::vector<const FactFile*> files, const std::string& host,
                      std::vector<std::string>& contradictions);

}  // namespace meshwright

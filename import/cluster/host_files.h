#pragma once

#include <string>
#include <vector>

#include "import/cluster/fact_file.h"

namespace meshwright {

// A node by its name, with the files that describe it.
struct HostFiles {
  std::string host;
  std::vector<const FactFile*> files;
};

// Every node there is, in the order of the switches, else of the list of hosts. Files whose host is
// not known describe all nodes that no other file describes. Which nodes there are: what lists of
// hosts say, else switches, else names of files' hosts, else `nodes`, else as many as a measurement
// went over, else one. Throws InputError for two files of a kind for one node, and for a node that
// nothing describes.
std::vector<HostFiles> files_of_hosts(const std::vector<FactFile>& files,
                                      std::optional<std::int64_t> nodes,
                                      std::vector<std::string>& contradictions);

}  // namespace meshwright

#pragma once

#include <string>

#include "import/cluster/node_facts.h"
#include "import/input/xml_input.h"

namespace meshwright {

// The topology that NCCL found (NCCL_TOPO_DUMP_FILE): the tree of processors, PCIe switches,
// devices with their NVLinks, and network cards with their speeds, of one node. Names of elements
// and attributes are those of NCCL's src/graph/xml.cc. Throws InputError with `source` and line.
NodeFacts read_nccl_topology(const XmlElement& root, const std::string& source);

}  // namespace meshwright

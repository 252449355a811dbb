#pragma once

#include <string>

#include "import/cluster/node_facts.h"
#include "import/input/xml_input.h"

namespace meshwright {

// An XML file of hwloc 2 (`lstopo topology.xml`): the host's name and memory, its devices and
// network cards. Throws InputError with `source` and the line.
NodeFacts read_hwloc_topology(const XmlElement& root, const std::string& source);

}  // namespace meshwright

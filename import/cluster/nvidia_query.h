#pragma once

#include <string>

#include "import/cluster/node_facts.h"
#include "import/input/xml_input.h"

namespace meshwright {

// What `nvidia-smi -q -x` prints: names, memory and PCIe links of the devices. Throws InputError
// with `source` and the line; devices cut into instances (MIG) are refused.
NodeFacts read_nvidia_query(const XmlElement& root, const std::string& source);

}  // namespace meshwright

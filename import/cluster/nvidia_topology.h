#pragma once

#include <string>
#include <string_view>

#include "import/cluster/node_facts.h"

namespace meshwright {

// What `nvidia-smi topo -m` prints: a matrix of how devices and network cards reach each other.
// Throws InputError with `source` and the line.
NodeFacts parse_nvidia_topology(std::string_view text, const std::string& source);

// Whether a text is such a matrix.
bool is_nvidia_topology(std::string_view text);

}  // namespace meshwright

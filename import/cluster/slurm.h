#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "import/cluster/node_facts.h"

namespace meshwright {

// The hosts of an expression such as "dgx[001-016,20],login1", in its order, zeros kept. Throws
// InputError with `place` (file and line, or option) for anything else and for more hosts than a
// cluster may have devices.
std::vector<std::string> parse_hostlist(std::string_view text, const std::string& place);

// Whether a text may be such an expression: names, numbers, brackets, one or more to a line.
bool is_hostlist(std::string_view text);

// Lines of `scontrol show topology`: "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=dgx[0-3]".
SwitchTree parse_switch_tree(std::string_view text, const std::string& source);

// Expressions, one or more to a line; or the variables of a job (`env | grep SLURM`), of which the
// list of nodes and the devices on each are read.
NodeList parse_node_list(std::string_view text, const std::string& source);

}  // namespace meshwright

#pragma once

#include <string>

#include "costmodel/base/units.h"

namespace meshwright {

std::string host_name();

// The same for processes that can open each other's memory: of one start of one machine, with the
// same numbers for processes. MESHWRIGHT_MACHINE names another: processes with different names take
// each other for being on different machines.
std::string machine_identity();

// The same for all processes of a machine.
Seconds machine_clock();

}  // namespace meshwright

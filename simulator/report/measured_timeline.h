#pragma once

#include <span>

#include "simulator/program/program.h"
#include "simulator/program/timeline.h"

namespace meshwright {

// A measured timeline by the rules of played ones, so that both mean the same: a transfer is under
// way from when all its members are ready. What was measured counts from when each one was, and a
// device that waits for another is idle. A device may have sent before its peer was ready: then the
// transfer took it no time.
Timeline with_waiting_idle(std::span<const Program> programs, Timeline measured);

}  // namespace meshwright

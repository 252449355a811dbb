#pragma once

#include <vector>

#include "simulator/program/program.h"
#include "simulator/program/timeline.h"

namespace meshwright {

// Buffers that a device holds in its own memory at a moment of the step, also those left by the
// step before; persistent ones always. By the rules of engine/memory_use.h, so that they add up to
// what that has there.
std::vector<BufferId> held_buffers(const Program& program, const DeviceTimeline& timeline,
                                   Seconds step, Seconds moment);

}  // namespace meshwright

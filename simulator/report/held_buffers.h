#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "simulator/program/program.h"
#include "simulator/program/timeline.h"

namespace meshwright {

// Buffers that a device holds in its own memory at a moment of the step, also those left by the
// step before; persistent ones always. By the rules of engine/memory_use.h, so that they add up to
// what that has there.
std::vector<BufferId> held_buffers(const Program& program, const DeviceTimeline& timeline,
                                   Seconds step, Seconds moment);

// Of each buffer the one that has the weights that it is about: weights themselves, whole or their
// own part, their gradients and the state of their optimizer. None: it is about no weights.
std::vector<std::optional<BufferId>> weights_of_buffers(const Program& program);
// Names of the weights in such a buffer, in their order there.
std::vector<std::string_view> names_in(const Program& program, BufferId weights);

}  // namespace meshwright

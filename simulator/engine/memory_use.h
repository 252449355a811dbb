#pragma once

#include <span>
#include <vector>

#include "simulator/program/program.h"
#include "simulator/program/timeline.h"

namespace meshwright {

// What a device holds over time, in its own memory or its host's, when its tasks run at `spans` in
// every step. Persistent buffers are there all the time; others from the start of the first task
// that has them as operand, which in a checked program writes them, to the finish of the last. What
// is there beyond the end of the step is there at the start of the next. One sample at 0 and one
// for each later moment at which something changes; what is freed and what is needed at the same
// moment may share memory. Time grows linearly in buffers and
// operands, and with the log of the number of lanes.
std::vector<MemorySample> memory_use(const Program& program, std::span<const TaskSpan> spans,
                                     Seconds step, Space space = Space::Device);

// The first of these samples with the most.
MemorySample fullest_moment(const Program& program, std::span<const TaskSpan> spans, Seconds step,
                            Space space = Space::Device);

// The most that the device has on its host at once.
Bytes host_peak(const Program& program, std::span<const TaskSpan> spans, Seconds step);

}  // namespace meshwright

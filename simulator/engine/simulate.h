#pragma once

#include <span>

#include "costmodel/cost_model.h"
#include "simulator/program.h"
#include "simulator/timeline.h"

namespace meshwright {

// Plays one step. A task starts when its lane's earlier tasks and the tasks it waits for have
// finished; a transfer starts when that is so on every member of its group, and ends for all at
// once (which tasks are one transfer: engine/meetings.h). Every task takes its price. The engine
// reorders nothing and knows nothing about why tasks are there.
//
// `programs` holds one program for each device that takes part; the timeline has them in the same
// order. The step ends with its last task. Time grows linearly in tasks, waits and operands, but
// for the sorting of buffers by time.
//
// Programs that block each other are a bug of whoever made them: std::logic_error, which names a
// device and a task that cannot start.
Timeline simulate(std::span<const Program> programs, const CostModel& costs);

}  // namespace meshwright

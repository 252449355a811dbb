#pragma once

#include <span>

#include "costmodel/price/cost_model.h"
#include "simulator/engine/engine_options.h"
#include "simulator/engine/scene.h"
#include "simulator/program/program.h"
#include "simulator/program/timeline.h"

namespace meshwright {

// Plays one step. A task starts when its lane's earlier tasks and the tasks it waits for have
// finished and its host has launched it; a transfer starts when that is so on every member of its
// group, and ends for all at once (which tasks are one transfer: engine/meetings.h). A task takes
// its price, or longer where the options make transfers share links and slow kernels. The engine
// reorders nothing and knows nothing about why tasks are there.
//
// The timeline has the scene's programs in their order. Without options.repeat its step ends with
// its last task. With it, the step is played twice, tasks of the second waiting for those of the
// first where persistent buffers make them: the timeline is that of the second step, counted from
// its first task, and the step is the most that any task finishes later than in the first (but no
// shorter than any lane is busy in it). A task may then finish after the step: beside tasks of the
// next one.
//
// Time grows linearly in tasks, waits and operands, but for sorting by time. Same input, same
// output, to the bit.
//
// Programs that block each other are a bug of whoever made them: std::logic_error, which names a
// device and a task that cannot start.
Timeline simulate(const Scene& scene, const CostModel& costs, const EngineOptions& options = {});

// One program for each device that takes part, nothing shared and nothing slowed.
Timeline simulate(std::span<const Program> programs, const CostModel& costs);
Timeline simulate(std::span<const Program> programs, const CostModel& costs, const Cluster& cluster,
                  const EngineOptions& options);

}  // namespace meshwright

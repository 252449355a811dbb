#pragma once

#include <cstddef>
#include <vector>

#include "simulator/program/arena.h"
#include "simulator/program/program.h"

namespace meshwright {

// Transfers run beside everything else, each in the order of the list.
inline bool runs_beside(const Task& task) { return task.kind == TaskKind::Transfer; }

// By task, the tasks that must be done before it starts, where those that have the same number in
// `side_of` run one after the other in the order of the list and sides run beside each other: what
// the program says, and what else uses memory that a buffer of the task's takes over. Of a side the
// last one only, and none that an earlier task of the same side has waited for.
std::vector<std::vector<std::size_t>> waits_across(const Program& program, const Arena& device,
                                                   const Arena& host,
                                                   const std::vector<std::size_t>& side_of);

// Of two sides: everything else, and what runs beside it.
std::vector<std::size_t> two_sides(const Program& program);
// A side for each lane.
std::vector<std::size_t> lane_sides(const Program& program);

}  // namespace meshwright

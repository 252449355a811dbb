#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "simulator/program/arena.h"
#include "simulator/program/program.h"

namespace meshwright {

// Transfers run beside everything else, each in the order of the list.
inline bool runs_beside(const Task& task) { return task.kind == TaskKind::Transfer; }

// By task, the last one on the other side that must be done before it starts: what the program
// says, and what else uses memory that a buffer of the task's takes over. None: it need not wait.
std::vector<std::optional<std::size_t>> waits_across(const Program& program, const Arena& device,
                                                     const Arena& host);

}  // namespace meshwright

#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "simulator/program/arena.h"
#include "simulator/program/program.h"

namespace meshwright::standin {

// By task, those of other lanes that it waits for.
using TaskWaits = std::vector<std::vector<std::size_t>>;

// Two tasks that use the same memory, of which one writes, and that nothing orders: lanes, and
// waits between them. None: there are no such two.
std::optional<std::pair<std::size_t, std::size_t>> unordered_uses(const Program& program,
                                                                  const Arena& device,
                                                                  const Arena& host,
                                                                  const TaskWaits& waits);

}  // namespace meshwright::standin

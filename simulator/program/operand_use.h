#pragma once

#include "simulator/program/program.h"

namespace meshwright {

// How a task uses an operand. What accumulates reads what it writes.
bool reads_operand(const Program& program, const Task& task, std::size_t operand);
bool writes_operand(const Program& program, const Task& task, std::size_t operand);
bool writes_buffer(const Program& program, const Task& task, BufferId buffer);

}  // namespace meshwright

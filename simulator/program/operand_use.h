#pragma once

#include "costmodel/kernel/operand_use.h"
#include "simulator/program/program.h"

namespace meshwright {

// The same of a program's tasks.
bool reads_operand(const Program& program, const Task& task, std::size_t operand);
bool writes_operand(const Program& program, const Task& task, std::size_t operand);
bool writes_buffer(const Program& program, const Task& task, BufferId buffer);

}  // namespace meshwright

#pragma once

#include <span>
#include <string>
#include <vector>

#include "simulator/program/program.h"

namespace meshwright {

// Everything wrong with a set of programs that are to run together, in words; knows nothing of how
// they were made. Sends match receives and collectives match in kind, size and order; the lists
// together can be run in order without waiting in a circle; each phase of an op runs exactly once
// for every micro-batch; what is read has been written, and what is written is read; tasks of
// different lanes that use the same buffer wait for each other; operands lie in their buffers.
std::vector<std::string> check_programs(std::span<const Program> programs);

// The part of that which concerns one program alone.
std::vector<std::string> check_alone(const Program& program);

}  // namespace meshwright

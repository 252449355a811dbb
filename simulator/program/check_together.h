#pragma once

#include <span>
#include <string>
#include <vector>

#include "simulator/program/program.h"

namespace meshwright {

// "device 3 task 17 (matmul forward layers.0.mlp)".
std::string task_name(const Program& program, std::size_t task);

// What is wrong with the transfers of programs that are to run together; each is right by itself.
void check_together(std::span<const Program> programs, std::vector<std::string>& problems);

}  // namespace meshwright

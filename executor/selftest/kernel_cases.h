#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "costmodel/kernel/kernel.h"

namespace meshwright {

// Every class of kernels that `benchmark` measures, once, with small odd sizes or with those given.
std::vector<Kernel> kernel_cases(const std::array<std::int64_t, 3>& sizes = {7, 9, 10});

// An ordinary number for an element of an operand, which every precision holds exactly; positive
// where an operand is one of sums or squares.
double ordinary_number(const Kernel& kernel, std::size_t operand, std::size_t element);

}  // namespace meshwright

#pragma once

#include <cstddef>

#include "costmodel/kernel/host_copy.h"
#include "costmodel/kernel/kernel.h"
#include "costmodel/kernel/transfer.h"

namespace meshwright {

// What a task does with each of its operands, in the order its buffers stand in. What accumulates
// reads what it writes.
bool reads_operand(const Kernel& kernel, std::size_t operand);
bool writes_operand(const Kernel& kernel, std::size_t operand);
bool reads_operand(const Transfer& transfer, std::size_t operand);
bool writes_operand(const Transfer& transfer, std::size_t operand);
bool reads_operand(const HostCopy& copy, std::size_t operand);
bool writes_operand(const HostCopy& copy, std::size_t operand);

}  // namespace meshwright

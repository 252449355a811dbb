#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/base/precision.h"
#include "costmodel/kernel/kernel.h"

// Numbers as buffers hold them, in the host's memory.
namespace meshwright {

std::vector<double> numbers_of(std::span<const std::byte> memory, BufferElement element,
                               Precision precision);
// Rounds to what the element can hold.
void set_number(std::span<std::byte> memory, std::int64_t index, double value,
                BufferElement element, Precision precision);

}  // namespace meshwright

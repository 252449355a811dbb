#pragma once

#include <cstddef>

#include "costmodel/kernel/kernel.h"

namespace meshwright {

// Whether every number of an operand is one: neither NaN nor infinite. Indices and bytes are.
bool is_finite(const Operand& operand, const std::byte* buffer, Precision precision);

}  // namespace meshwright

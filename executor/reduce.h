#pragma once

#include <cstddef>
#include <span>

#include "costmodel/base/precision.h"
#include "costmodel/kernel/transfer.h"
#include "executor/common_rows.h"

namespace meshwright {

// result = the reduction of the sources from left to right, `count` elements. The result may be
// one of the sources. A maximum with a NaN is NaN. Sums of 16-bit numbers are in fp32, and rounded
// once, when they are stored.
void reduce(Reduction reduction, BufferElement element, Precision precision,
            std::span<const Row> sources, std::size_t count, const Row& result);

}  // namespace meshwright

#pragma once

#include <cstdint>

#include "costmodel/kernel/kernel.h"
#include "costmodel/kernel/transfer.h"

namespace meshwright {

// What a kernel or transfer is with more samples in a micro-batch, from what it is with one and
// with two: every number in it grows by as much with each sample.
Transfer grown(const Transfer& one, const Transfer& two, std::int64_t samples);
// Into a kernel that was used before, whose memory it takes over.
void grow(Kernel& kernel, const Kernel& one, const Kernel& two, std::int64_t samples);

}  // namespace meshwright

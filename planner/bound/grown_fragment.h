#pragma once

#include "simulator/lowering/fragment.h"

namespace meshwright {

// What ops are lowered to with more samples in a micro-batch, from what they are with one and with
// two: every number in it grows by as much with each sample. A third of what lowering takes.
Fragment grown(const Fragment& one, const Fragment& two, std::int64_t samples);
Transfer grown(const Transfer& one, const Transfer& two, std::int64_t samples);
// Into a kernel that was used before, whose memory it takes over.
void grow(Kernel& kernel, const Kernel& one, const Kernel& two, std::int64_t samples);

}  // namespace meshwright

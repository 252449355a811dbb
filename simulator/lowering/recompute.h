#pragma once

#include "simulator/lowering/fragment.h"

namespace meshwright {

// Removes from what a fragment computes again everything that nothing reads, unless the plan wants
// it, and then the buffers that nothing uses.
void drop_unread(Fragment& fragment);

}  // namespace meshwright

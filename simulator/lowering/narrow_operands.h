#pragma once

#include "simulator/lowering/fragment.h"

namespace meshwright {

// Where products have 8 bits, what the forward writes for products alone is kept in 8 bits until
// their weights' gradients: such buffers are expected to take half of what 16 bits do.
void narrow_operands(Fragment& fragment);

}  // namespace meshwright

#pragma once

#include <cstddef>
#include <variant>
#include <vector>

#include "costmodel/kernel/kernel.h"
#include "costmodel/kernel/transfer.h"
#include "planner/bound/block_bounds.h"

namespace meshwright {

// A kernel of a block, or a transfer of rows to their experts or among devices that share products
// or the sequence out, of a micro-batch of one and of two samples. Nothing for other transfers and
// for slices of what was gathered: they pass on what they wait for.
struct BlockTask {
  std::variant<std::monostate, Kernel, Transfer> one, two;
  std::vector<std::size_t> waits;  // earlier tasks of the same block and direction, in the list
  std::size_t block = 0, lane = 0;
  bool forward = true;
  // Of layers: reads what comes in from the layer before; is the last to write what goes to the
  // next.
  bool receives = false, sends = false;
  // By operand of a kernel, those that are of a micro-batch: the same number for one buffer.
  struct Used {
    std::size_t operand = 0, buffer = 0;
    Bytes one, two;  // of the whole buffer
  };
  std::vector<Used> buffers;
};
// Those of all blocks, as a device does them.
std::vector<BlockTask> block_tasks(const LoweredBlocks& blocks, const Model& few);

}  // namespace meshwright

#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

#include "costmodel/kernel/kernel.h"
#include "costmodel/kernel/transfer.h"
#include "planner/bound/block_bounds.h"

namespace meshwright {

// A kernel of a block, or a transfer of rows to their experts or among devices that share products
// or the sequence out, of a micro-batch of one and of two samples. Nothing for other transfers and
// for slices of what was gathered: they pass on what they wait for.
struct SampledWork {
  std::variant<std::monostate, Kernel, Transfer> one, two;
  friend bool operator==(const SampledWork&, const SampledWork&) = default;
};

// Divisions of work that differ in little do mostly the same: it is there once, as long as a task
// does it.
class SharedWorks {
 public:
  std::shared_ptr<const SampledWork> get(SampledWork work);

 private:
  void forget_unused();

  std::unordered_multimap<std::size_t, std::weak_ptr<const SampledWork>> known_;  // by likeness
  std::size_t many_ = 1024;
};

struct BlockTask {
  std::shared_ptr<const SampledWork> work;
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
std::vector<BlockTask> block_tasks(const LoweredBlocks& blocks, const Model& few,
                                   SharedWorks& works);

}  // namespace meshwright

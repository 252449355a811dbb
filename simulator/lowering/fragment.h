#pragma once

#include <optional>
#include <vector>

#include "simulator/lowering/op_sharding.h"
#include "simulator/lowering/weight_buckets.h"
#include "simulator/program.h"

namespace meshwright {

using FragmentBufferId = Id<struct FragmentBufferTag>;

// A buffer of a fragment: one of the program's that is always there, or one for every micro-batch.
struct FragmentBuffer {
  Buffer buffer;
  std::optional<BufferId> persistent;
};

struct FragmentTask {
  TaskKind kind = TaskKind::Kernel;
  Kernel kernel;
  Transfer transfer;
  std::vector<FragmentBufferId> operands;
  KernelPart part = KernelPart::Forward;  // which entries of the order it belongs to
  std::vector<WeightUsed> gradients;      // weights whose gradient it adds to
};

// What a device does with one micro-batch in one chunk: the same for every micro-batch.
struct Fragment {
  std::vector<FragmentBuffer> buffers;
  std::vector<FragmentTask> forward;
  std::vector<FragmentTask> backward;
};

Fragment lower_chunk(const Program& program, const PlannedGraph& planned, const Plan& plan,
                     const Placement& placement, const OpSharding& sharding,
                     const WeightBuckets& weights, std::size_t chunk);

}  // namespace meshwright

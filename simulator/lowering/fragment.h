#pragma once

#include <optional>
#include <vector>

#include "simulator/lowering/op_sharding.h"
#include "simulator/lowering/weight_buckets.h"
#include "simulator/program/program.h"

namespace meshwright {

using FragmentBufferId = Id<struct FragmentBufferTag>;

// A bucket's weights or gradients whole, where dp shards them: one buffer for every entry.
struct WholeBucket {
  std::size_t bucket = 0;
  Component component = Component::Weights;
  friend auto operator<=>(const WholeBucket&, const WholeBucket&) = default;
};

// A buffer of a fragment: one of the program's that is always there, a bucket that is whole for a
// while, or one for every micro-batch.
struct FragmentBuffer {
  Buffer buffer;
  std::optional<BufferId> persistent = {};
  std::optional<WholeBucket> whole = {};
};

// A tensor or its gradient that goes from chunk to chunk. What one entry sends to one slot goes in
// this order.
struct Message {
  std::size_t chunk = 0;  // the other one
  TensorId tensor;
  friend auto operator<=>(const Message&, const Message&) = default;
};

struct FragmentTask {
  TaskKind kind = TaskKind::Kernel;
  Kernel kernel;
  Transfer transfer;
  HostCopy copy;
  std::vector<FragmentBufferId> operands;
  KernelPart part = KernelPart::Forward;  // which entries of the order it belongs to
  std::vector<WeightUsed> gradients;      // weights whose gradient it adds to
  std::optional<Message> received;        // none: not a receive
  bool recompute = false;                 // repeats what the forward did and dropped
  bool needless = false;                  // recompute: stays even if nothing reads its results
  bool early = false;                     // a copy that may stand before an earlier entry
  bool waits_for_compute = false;         // as the program's task does
  std::size_t op = 0;                     // that the lowering was at
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

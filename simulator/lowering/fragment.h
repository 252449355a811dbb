#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "simulator/lowering/planned_graph.h"
#include "simulator/program/program.h"

namespace meshwright {

using FragmentBufferId = Id<struct FragmentBufferTag>;

// A weight as one op uses it, or its gradient as that op computes it.
struct WeightOfOp {
  std::size_t op = 0;
  WeightId weight;
  bool gradient = false;
  friend auto operator<=>(const WeightOfOp&, const WeightOfOp&) = default;
};
// The sum of the loss over micro-batches.
struct LossSum {
  friend auto operator<=>(const LossSum&, const LossSum&) = default;
};
// Numbers that are there for one micro-batch.
struct OfMicrobatch {
  friend auto operator<=>(const OfMicrobatch&, const OfMicrobatch&) = default;
};

// What of weights and the loss a fragment uses is bound to buffers of a program later: where these
// lie, and whether they are there all the time, is not the fragment's business.
struct FragmentBuffer {
  Buffer buffer;
  std::variant<OfMicrobatch, WeightOfOp, LossSum> holds = OfMicrobatch();
};

// A tensor or its gradient that goes from chunk to chunk. What one entry sends to one slot goes in
// this order.
struct Message {
  std::size_t chunk = 0;  // the other one
  TensorId tensor;
  friend auto operator<=>(const Message&, const Message&) = default;
};

struct FragmentTask {
  std::variant<Kernel, Transfer, HostCopy> work;
  std::vector<FragmentBufferId> operands;
  Phase phase = Phase::Forward;       // which entries of the order it belongs to
  std::vector<WeightOfOp> gradients;  // that it adds to
  std::optional<Message> received;    // none: not a receive
  bool recompute = false;             // repeats what the forward did and dropped
  bool needless = false;              // recompute: stays even if nothing reads its results
  bool early = false;                 // a copy that may stand before an earlier entry
  bool waits_for_compute = false;     // as the program's task does
  bool slices = false;                // a step to another layout that a device takes alone
  std::size_t op = 0;                 // that the lowering was at
};
bool writes_operand(const FragmentTask& task, std::size_t operand);

// What a device does with one micro-batch in some ops: the same for every micro-batch.
struct Fragment {
  std::vector<FragmentBuffer> buffers;
  std::vector<FragmentTask> forward;
  std::vector<FragmentTask> backward;
};

// Where tensors go that ops outside the fragment read or produce: sent to their chunks, or simply
// there, as for some of a chunk's ops by themselves.
enum class FragmentEdges { Messages, Given };

// The ops of a range that lies in one chunk, of a device of the chunk's slot. Segments of
// recomputation that lie in the range count, others do not.
Fragment lower_fragment(const PlannedGraph& planned, const Plan& plan, const Placement& placement,
                        const OpRange& range, FragmentEdges edges = FragmentEdges::Messages);

// The fragment as a program of its own, forward then backward, with buffers for the weights it
// uses: what one micro-batch of these ops takes by itself can be priced and played.
Program program_of(const Fragment& fragment, const Plan& plan, DeviceId device);

}  // namespace meshwright

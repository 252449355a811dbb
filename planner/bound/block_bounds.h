#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/kernel/kernel.h"
#include "costmodel/price/link_use.h"
#include "planner/bound/apart_segments.h"
#include "planner/bound/block_steps.h"
#include "planner/bound/max_plus.h"
#include "planner/bound/port_load.h"
#include "simulator/choices/plan_choices.h"
#include "simulator/lowering/fragment.h"
#include "simulator/report/predict.h"

namespace meshwright {

// What one device does with a block of the model for one micro-batch, in one direction.
struct BlockWork {
  MaxPlus advance = MaxPlus::unit();
  double compute_s = 0;       // of its kernels
  double transfer_s = 0;      // of its transfers
  PortLoad ports = {};        // of those that its kernels wait for
  std::int64_t launches = 0;  // by the host
};

// A weight of a block as one device holds it, in the order in which gradients are complete.
struct BlockWeight {
  std::size_t number = 0;  // in the model of few layers
  std::int64_t elements = 0;
  std::int64_t least = 0;    // that the last device of the group has, which has fewest
  std::size_t likeness = 0;  // those that are summed over the same axes go together
  bool frozen = false;
  bool routed = false;           // of experts that replicas share out among them
  bool tied = false;             // its gradients come from several ops
  LaneTimes complete = never();  // when its gradient is, from the state before the backward
  double compute_before_s = 0;   // of the backward's kernels, up to that
  double read_after_s = 0;       // of the forward's kernels, up to the first that may read it
  // Where it is first used, forward and backward, and where its gradient is complete.
  std::optional<StepPlace> uses[2] = {}, completes = {};
};

// The most that is there, by what of the state is elsewhere and comes for the kernels that use it:
// nothing, gradients, or gradients and weights; without experts that are each at one device, or
// with them.
struct Peaks {
  Bytes of[3][2] = {};

  void raise(const Peaks& other, Bytes more = {}) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 2; ++j) of[i][j] = std::max(of[i][j], other.of[i][j] + more);
    }
  }
  void add(Bytes bytes) {
    for (auto& own : of) own[0] += bytes, own[1] += bytes;
  }
  // A weight or gradient that is made whole.
  void add_whole(Bytes bytes, bool gradient, bool routed) {
    for (std::size_t stage = gradient ? 1 : 2; stage < 3; ++stage) {
      for (std::size_t i = routed ? 1 : 0; i < 2; ++i) of[stage][i] += bytes;
    }
  }
};

// What a block has in memory of one micro-batch.
struct BlockMemory {
  Bytes kept;  // from the forward to the backward
  Bytes back;  // where activations go to the host: what is brought back for the backward
  // The most that is there in a direction besides what other blocks keep.
  Peaks forward_peak, backward_peak;
  // The same where what it keeps may be on the host while its kernels do not use it.
  Peaks forward_use_peak, backward_use_peak;
};

struct BlockBound {
  BlockWork forward, backward;
  BlockSteps steps[2];  // the same, forward and backward
  BlockMemory memory;
  // Where nothing is computed again: what it has at the least, whatever a layer does not keep.
  std::optional<BlockMemory> least;
  std::vector<Bytes> kept_by;  // of what is kept, what each op leaves
  // Seconds of each op's kernels in the forward, if it leaves something: what dropping that costs.
  std::vector<double> again_by;
  // Of the backward's kernels from the first on that uses what comes last from the host.
  double after_back_s = 0;
  std::vector<BlockWeight> weights;
  bool layer = false;  // of those that chunks share
};

// What a micro-batch has in the block that stands behind the layers, where that is larger than
// anything before it: the forward's buffers and then the backward's, as tasks are listed.
struct ClosingMemory {
  Bytes largest_ahead;                // of buffers in forwards before it
  std::vector<ListedBuffer> buffers;  // those that are larger
  std::uint32_t first_gradient = 0;   // task that adds to a weight's gradient
};

// All blocks for one way to divide the work of a layer, without the replicas and stages around it.
struct BlockBounds {
  std::vector<BlockBound> blocks;
  std::size_t likenesses = 0;  // of weights
  Bytes message;               // between chunks, one way, of a micro-batch
  ClosingMemory closing;
};

// The blocks of a model, each at most three times: what a plan makes of them is what it makes of
// the whole model's.
Model few_layers(const Model& model);
// The same model with at most so many repetitions of each block.
Model with_layers(Model model, std::int64_t layers);
// The ops of each block's repetition that stands for all.
struct BlockOps {
  OpRange ops;
  bool layer = false;
};
std::vector<BlockOps> block_ops(const Model& model);
// The same setting for another model, which must outlive it.
Setting with_model(const Setting& setting, const Model& model);

// A plan of the blocks of a model of few layers on the devices of one tensor group, with a
// micro-batch, and what it makes of the model.
struct PlannedBlocks {
  PlanChoices choices;
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const PlannedGraph> graph;  // refers to the plan; whatever is recomputed
};
// Of the choices replicas, stages, schedule, state, bucket and offload do not count.
std::variant<PlannedBlocks, Reasons> plan_blocks(const PlanChoices& choices,
                                                 const BatchChoice& batch, const Setting& few);

// The blocks as one device has them.
struct LoweredBlocks {
  PlannedBlocks planned;
  Plan plan;  // with what is recomputed
  Fragment fragment;
};
// As planned, and with another recomputation.
LoweredBlocks lower_blocks(const PlannedBlocks& planned);
std::variant<LoweredBlocks, Reasons> lower_blocks(const PlannedBlocks& planned,
                                                  const RecomputeChoice& recompute,
                                                  const Setting& few);
// What they are with twice the micro-batch and the same ways to other layouts. With more samples
// every number grows by as much again, as long as these ways are the cheapest.
Fragment lower_twice(const LoweredBlocks& blocks);

// Of what the first device of a tensor group computes, what any other one does at the least: where
// a dimension does not divide, as heads of attention may not, the first devices have one more of
// it.
double least_part(const PlannedGraph& planned, const Plan& plan);

// What blocks cost. The times are those of a play in which nothing is shared
// and kernels are slowed by collectives beside them no more than they must be: never more than the
// engine's.
BlockBounds block_bounds(const LoweredBlocks& blocks, const Setting& few, const LinkMap& links);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "simulator/lowering/weight_buckets.h"
#include "simulator/program/program.h"

namespace meshwright {

// What tasks that work on weights and their state use: buffers of a bucket, the own gradient of a
// later use of a weight, what the step reports, or a buffer that the list itself makes.
enum class StateKind { Weights, Gradients, FirstMoment, SecondMoment, MasterWeights };
// Those of the optimizer: two moments, and a copy of weights that have too few bits.
std::vector<StateKind> optimizer_state(const Plan& plan);
struct BucketState {
  std::size_t bucket = 0;
  StateKind kind = StateKind::Weights;
};
struct UseGradient {
  std::size_t bucket = 0, weight = 0, use = 0;
};
enum class StepOutput { Loss, Clip, Finite };
struct MadeBuffer {
  std::size_t index = 0;
};
using StateOperand = std::variant<BucketState, UseGradient, StepOutput, MadeBuffer>;

struct StateTask {
  std::variant<Kernel, Transfer, HostCopy> work;
  std::vector<StateOperand> operands;
  std::int64_t round = 0;  // within the end of the step, the same on all devices
  bool waits_for_compute = false;
  bool has_predicate = false;  // it is the last of the operands
};

struct StepEnd {
  std::vector<Buffer> buffers;  // made for it
  std::vector<StateTask> tasks;
};

// A buffer of a bucket, which is always there.
Buffer state_buffer(const WeightBuckets& weights, std::size_t bucket, StateKind kind,
                    const Plan& plan);
// The part of a weight, flattened, whose final gradient and optimizer state the device holds.
ShardRange owned_part(const Bucket& bucket, const BucketWeight& weight);

// Sums a bucket's whole gradients over the replicas: whole on each, or where its state is shared
// out each its own part. All operands are one buffer of the whole bucket.
std::vector<StateTask> bucket_sync(const PlannedGraph& planned, const WeightBuckets& weights,
                                   std::size_t bucket, const Plan& plan,
                                   const Placement& placement);

// Slots whose ops add to the loss, ascending.
std::vector<std::size_t> loss_slots(const PlannedGraph& planned, const Plan& plan);

// What comes after the last backward: gradients of tied weights are added, buckets that are left
// are summed, then what other axes have parts of, the norm of all gradients is found, weights are
// updated and, where only their state was shared out, gathered. `synced`: buckets that have been
// summed. Depends on nothing of a program.
StepEnd end_of_step(const PlannedGraph& planned, const WeightBuckets& weights,
                    const std::vector<bool>& synced, const Plan& plan, const Placement& placement);

}  // namespace meshwright

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/lowering/op_sharding.h"
#include "simulator/program/program.h"

namespace meshwright {

// One use of a weight by an op of the device. The first use's gradient lies in the bucket; others
// have a buffer of their own until they are added, so that a pipeline that separates the uses adds
// the same numbers in the same order.
struct WeightUsed {
  std::size_t op = 0;
  WeightId weight;
  std::size_t shard = 0;                 // index into Program::weights
  std::size_t bucket = 0;                // that holds it
  std::optional<BufferId> own_gradient;  // none: in the bucket
};

// Weights that are flattened into one buffer, and so are their gradients and optimizer state.
// Where dp shards weights or gradients, their buffer holds this device's own part only. A tied
// weight's gradient is whole even then: slots exchange it before it is summed over the replicas.
struct Bucket {
  BufferId weights;
  std::optional<BufferId> gradients, first_moment, second_moment;  // none: the weights are frozen
  std::optional<BufferId> master;  // none: the weights themselves have bits enough
  bool shards_weights = false, shards_gradients = false;
  bool partial = false;      // devices along tp each have a part of the gradients to be added
  std::int64_t count = 0;    // elements, a multiple of dp where that shards them
  std::int64_t filled = 0;   // without what makes it a multiple
  std::int64_t decayed = 0;  // the first ones decay, the rest do not
  std::int64_t own_first = 0, own_count = 0;  // the part this device updates
  std::vector<std::size_t> shards;
  bool tied = false;               // one weight that other slots or several ops use too
  std::vector<std::size_t> slots;  // that hold the tied weight, in order

  // Elements of the bucket that the buffers start at.
  std::int64_t weights_first() const { return shards_weights ? own_first : 0; }
  std::int64_t gradients_first() const { return shards_gradients ? own_first : 0; }
};

struct WeightBuckets {
  std::vector<Bucket> buckets;  // in the order their gradients are complete
  std::vector<WeightUsed> uses;

  const WeightUsed& use(std::size_t op, WeightId weight) const;
};

// Adds the device's weights to the program: buffers and shards.
WeightBuckets add_weights(Program& program, const PlannedGraph& planned, const Plan& plan,
                          const Placement& placement, const OpSharding& sharding);

}  // namespace meshwright

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/lowering/planned_graph.h"

namespace meshwright {

// A weight in a bucket, as one device holds it. The first use's gradient lies in the bucket; others
// have a buffer of their own until they are added, so that a pipeline that separates the uses adds
// the same numbers in the same order.
struct BucketWeight {
  WeightId weight;
  std::vector<std::size_t> uses;    // ops of the device's slot
  std::vector<GlobalExtent> place;  // start and whole size of each dimension
  Extents sizes;
  std::int64_t offset = 0;  // in the bucket, in elements
  bool counted = true;      // false where another device counts the same numbers
  // How far it moves against the sign of its gradient, which is no slope of the loss; none: by it.
  std::optional<double> sign_rate = {};
};

// Weights that are flattened into one buffer, and so are their gradients and optimizer state.
// Where weights or gradients are shared out, a device has its own part of them only. A tied
// weight's gradient is whole even then: slots exchange it before it is summed over the replicas.
struct Bucket {
  std::vector<BucketWeight> weights;
  bool frozen = false;
  // Axes whose devices' gradients are summed as soon as they are complete, and at the step's end.
  std::vector<AxisId> replica_axes, late_axes;
  // Of the first ones, those whose devices share the state out among them.
  std::vector<AxisId> state_axes;
  bool shards_weights = false, shards_gradients = false;
  std::int64_t count = 0;                     // elements, a multiple of the owners
  std::int64_t decayed = 0;                   // the first ones decay, the rest do not
  std::int64_t moved = 0;                     // those before move by their gradients
  std::int64_t own_first = 0, own_count = 0;  // the part this device updates
  bool tied = false;                          // one weight that other slots or several ops use too
  std::vector<std::size_t> slots;             // that hold the tied weight, in order

  // Elements of the bucket that the device's weights and gradients start at.
  std::int64_t weights_first() const { return shards_weights ? own_first : 0; }
  std::int64_t gradients_first() const { return shards_gradients ? own_first : 0; }
};

// Where an op finds a weight.
struct WeightUsed {
  std::size_t bucket = 0;
  std::size_t weight = 0;  // of the bucket's
  std::size_t use = 0;     // of the weight's
};

struct WeightBuckets {
  std::vector<Bucket> buckets;  // in the order their gradients are complete

  const WeightUsed& use(std::size_t op, WeightId weight) const;
  // By op and weight, ascending.
  std::vector<std::pair<std::pair<std::size_t, WeightId>, WeightUsed>> uses;
};

// Whether devices along an axis have samples of their own and share experts out: all other weights
// are repeated along it.
bool shares_experts(const PlannedGraph& planned, const Plan& plan, AxisId axis);

// Whether a weight of this size is too much for a bucket that has so much already.
bool overfills(Bytes filled, Bytes size, Bytes bucket);
// Elements of a bucket that so many owners share out.
std::int64_t padded(std::int64_t elements, std::int64_t owners);

// The buckets of a device: plain values that depend on nothing of a program.
WeightBuckets cut_buckets(const PlannedGraph& planned, const Plan& plan,
                          const Placement& placement);

}  // namespace meshwright

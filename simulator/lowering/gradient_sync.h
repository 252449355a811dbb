#pragma once

#include "simulator/lowering/op_sharding.h"
#include "simulator/lowering/program_writer.h"
#include "simulator/lowering/weight_buckets.h"

namespace meshwright {

// Sums a bucket's whole gradients over the replicas: whole on each, or with ZeRO each its own part.
void add_bucket_sync(ProgramWriter& writer, const Bucket& bucket, const Plan& plan,
                     const Placement& placement, OrderKey key);

// What comes after the last backward, from time `after` on: gradients of tied weights are added,
// buckets that are left are summed, then parts of gradients along tp, the norm of all gradients is
// found, weights are updated and, with ZeRO-1 and 2, gathered.
void add_step_end(ProgramWriter& writer, const Program& program, const WeightBuckets& weights,
                  const std::vector<bool>& synced, const Plan& plan, const Placement& placement,
                  std::int64_t after);

}  // namespace meshwright

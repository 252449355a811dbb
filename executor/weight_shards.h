#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

#include "executor/global_tensor.h"
#include "simulator/program/program.h"

namespace meshwright {

std::vector<std::int64_t> global_shape(const WeightShard& shard);

// Calls use(offset in the shard's bucket, row-major index in the whole weight) for every element.
template <class Use>
void for_each_element(const WeightShard& shard, Use use) {
  std::vector<std::int64_t> at(shard.sizes.size(), 0);
  std::int64_t count = 1;
  for (std::size_t d = 0; d < shard.sizes.size(); ++d) {
    assert(shard.place[d].start + shard.sizes[d] <= shard.place[d].size);
    count *= shard.sizes[d];
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t global = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      global = global * shard.place[d].size + shard.place[d].start + at[d];
    }
    use(shard.offset + i, global);
    for (std::size_t d = at.size(); d-- > 0 && ++at[d] == shard.sizes[d];) at[d] = 0;
  }
}

// By element of a buffer: whether it holds its final value at the end of a step, and not a partial
// sum that a reduce-scatter has left behind.
std::vector<bool> final_elements(const Program& program, BufferId buffer);

// What a buffer holds of a bucket: its numbers, and the element of the bucket that is the first.
struct BucketPart {
  const std::vector<double>& values;
  std::int64_t first = 0;
};

// Puts those elements of a shard that are in the part into the whole weight; `valid` says, by
// element of the part, what counts; null: all.
void put_shard(const WeightShard& shard, const BucketPart& part, const std::vector<bool>* valid,
               GlobalTensors& tensors);

}  // namespace meshwright

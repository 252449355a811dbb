#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "planner/bound/block_tasks.h"

namespace meshwright {

// When tasks end that follow each other in the lanes of each direction of each block, each as soon
// as what it waits for is done. What a task waits for may be of a block before.
class TaskEnds {
 public:
  // They must outlive this.
  explicit TaskEnds(const std::vector<BlockTask>& tasks)
      : tasks_(tasks), ends_(tasks.size(), kBefore) {
    for (const BlockTask& task : tasks) {
      lane_count_ = std::max(lane_count_, task.lane + 1);
      block_count_ = std::max(block_count_, task.block + 1);
    }
    lanes_.assign(2 * block_count_ * lane_count_, kBefore);
  }

  // The next one. `starts`: not before the moment from which on time is counted.
  void add(std::size_t t, std::optional<double> seconds, bool starts) {
    const BlockTask& task = tasks_[t];
    double start = starts ? 0 : kBefore;
    for (const std::size_t wait : task.waits) start = std::max(start, ends_[wait]);
    ends_[t] = start;
    if (!seconds) return;
    double& lane = lanes_[number_of(task.forward, task.block, task.lane)];
    lane = ends_[t] = std::max(start, lane) + *seconds;
  }
  // Of computing.
  double end(bool forward, std::size_t block) const {
    const double end =
        block < block_count_ ? lanes_[number_of(forward, block, kComputeLane)] : kBefore;
    return end == kBefore ? 0 : end;
  }
  // By block, of both directions: when what goes to the next block is there. 0: not known.
  std::vector<double> sent(std::size_t blocks) const {
    std::vector<double> both(blocks, 0);
    std::vector<int> known(blocks, 0);
    for (std::size_t t = 0; t < ends_.size(); ++t) {
      if (!tasks_[t].sends || ends_[t] == kBefore) continue;
      both[tasks_[t].block] += ends_[t];
      ++known[tasks_[t].block];
    }
    for (std::size_t b = 0; b < blocks; ++b) both[b] = known[b] == 2 ? both[b] : 0;
    return both;
  }
  // How long before the end of a block's backward that is.
  double early(std::size_t block) const {
    double longest = 0;
    for (std::size_t t = 0; t < ends_.size(); ++t) {
      if (!tasks_[t].sends || tasks_[t].forward || tasks_[t].block != block) continue;
      longest = std::max(longest, end(false, block) - ends_[t]);
    }
    return longest;
  }

  static constexpr std::size_t kComputeLane = 0;

 private:
  static constexpr double kBefore = -std::numeric_limits<double>::infinity();

  std::size_t number_of(bool forward, std::size_t block, std::size_t lane) const {
    return ((forward ? 1 : 0) * block_count_ + block) * lane_count_ + lane;
  }

  const std::vector<BlockTask>& tasks_;
  std::vector<double> ends_;
  std::size_t lane_count_ = 1, block_count_ = 0;
  std::vector<double> lanes_;  // by direction, block and lane
};

}  // namespace meshwright

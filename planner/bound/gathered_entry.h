#pragma once

#include <vector>

#include "planner/bound/stepped_entry.h"

namespace meshwright {

// An entry with gathers and sums where lowering lists them. A bucket is gathered when computing has
// come to the first use of the one that is `prefetch` ahead of it, and kernels that use it wait for
// it. Where no kernel of a repeated step is listed before the gather, it waits for the update of
// the bucket alone, while others are still updated. Gradients are summed over the replicas in the
// same lane when the last of a bucket is complete, and behind that, in another lane, with those
// that have the same share; kernels go on when the sum of the bucket before it is there to be
// added. They are slowed beside all of these.
class StagePlay::GatheredEntry : StagePlay::SteppedEntry {
 public:
  // All must outlive this.
  GatheredEntry(StagePlay& play, std::size_t number, const PipelineItem& item);

  // The state after it.
  LaneTimes run(LaneTimes state);

 private:
  struct Complete {
    std::size_t bucket = 0;
    double ready = 0;
  };

  const BoundBucket& bucket(std::size_t number) const { return buckets_[number]; }
  // Whether the next bucket is first used, or complete, at a step of the block at hand or before
  // it.
  bool uses_next(std::uint16_t step) const;
  bool completes_next(std::uint16_t step) const;
  double transfer(std::size_t bucket, double ready, const TransferLoad& load);
  void gather_next(double came);
  double wait_for_weights(std::uint16_t step, double came);
  void complete_gradients(std::uint16_t step, double ended, double& came, const BlockBound& block,
                          const LaneTimes& before);
  void sum(const Complete& complete, double& came);

  const std::vector<BoundBucket>& buckets_;
  const ChunkPrices& prices_;
  const bool begins_step_;
  const double begin_;  // when computing has come to the entry
  const std::size_t back_;
  const std::vector<std::size_t>& used_;
  std::size_t uses_ = 0;  // of buckets, so far
  std::size_t completes_ = 0;
  std::vector<double> gathered_;   // when they are there
  std::vector<Complete> waiting_;  // for the end of the entry
};

}  // namespace meshwright

#pragma once

#include <vector>

#include "planner/bound/stepped_entry.h"

namespace meshwright {

// An entry beside which sums over the replicas are under way or begin: gradients are summed when
// the last of a bucket is complete, and kernels are slowed until all sums are there. Nothing is
// sooner because something else takes longer: of kernels that come later fewer may be slowed, and
// that is less than they are late.
class StagePlay::SlowedEntry : StagePlay::SteppedEntry {
 public:
  // All must outlive this. `sums`: the entry's gradients are summed.
  SlowedEntry(StagePlay& play, std::size_t number, const PipelineItem& item, bool sums);

  // The state after it.
  LaneTimes run(const LaneTimes& state);

 private:
  // Of buckets that are complete up to a step, which has just ended.
  void complete_until(std::uint16_t step, double ended, double& came, const BlockBound& block,
                      const LaneTimes& before);
  void complete(std::size_t number, double ended, double& came, const BlockBound& block,
                const LaneTimes& before);
  // Whether the next bucket is complete at a step of the block at hand or before it.
  bool completes_next(std::uint16_t step) const;
  void sum(const Sync& sync);
  void add_scattered(const Sync& sync, double& came);

  const bool sums_;
  const std::vector<BoundBucket>* const buckets_;  // with what they cost, if they are summed
  const ChunkPrices* const prices_;
  std::size_t next_ = 0;  // of those that are completed
};

}  // namespace meshwright

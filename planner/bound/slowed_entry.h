#pragma once

#include <vector>

#include "planner/bound/copies_back.h"
#include "planner/bound/stage_play.h"

namespace meshwright {

// Plays an entry step by step where sums over the replicas are under way or begin: gradients are
// summed when the last of a bucket is complete, and kernels are slowed until all sums are there.
// Nothing is sooner because something else takes longer: of kernels that come later fewer may be
// slowed, and that is less than they are late.
class StagePlay::SlowedEntry {
 public:
  // All must outlive this. `sums`: the entry's gradients are summed.
  SlowedEntry(StagePlay& play, std::size_t number, const PipelineItem& item, bool sums);

  // The state after it.
  LaneTimes run(LaneTimes state);

 private:
  LaneTimes through(const BlockBound& block, const LaneTimes& state);
  // Of buckets that are complete up to a step, which has just ended.
  void complete_until(std::uint16_t step, double ended, double& came, const BlockBound& block,
                      const LaneTimes& before);
  void complete(double ended, double& came, const BlockBound& block, const LaneTimes& before);
  void sum(const Sync& sync);
  void add_scattered(const Sync& sync, double& came);

  StagePlay& play_;
  Stage& stage_;
  const PipelineItem& item_;
  const bool sums_;
  const ChunkWork& chunk_;
  const std::vector<BoundBucket>* const buckets_;  // with what they cost, if they are summed
  const ChunkPrices* const prices_;
  const double loss_;
  CopiesBack copies_;
  std::int64_t repetition_ = 0;  // of blocks, that have been played
  std::size_t next_ = 0;         // bucket
  double done_;                  // of the stage's kernels
  std::vector<double> finish_;   // of a block's steps
};

}  // namespace meshwright

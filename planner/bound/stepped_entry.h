#pragma once

#include <algorithm>
#include <vector>

#include "planner/bound/copies_back.h"
#include "planner/bound/stage_play.h"

namespace meshwright {

// Plays an entry block by block and step by step, its kernels slowed as long as replicas transfer
// beside them. The matrices of blocks say no less where nothing is waited for in between.
class StagePlay::SteppedEntry {
 protected:
  // All must outlive this. `at_once`: what replicas transfer begins when the device comes to it.
  SteppedEntry(StagePlay& play, std::size_t number, const PipelineItem& item, bool at_once)
      : play_(play),
        stage_(play.stages_[number]),
        item_(item),
        chunk_(play.work_.chunk(static_cast<std::size_t>(item.chunk))),
        loss_(at_once ? stage_.loss : 0),
        copies_(play, stage_, item),
        done_(stage_.done_s) {}

  // The state after it. `happens()`: something does in the block at hand but what its matrix says.
  // `ready` as in play_steps; `ended(step, finish, came, block, before)` also where a block ends,
  // as its last step. `ties`: weights of several ops have their last gradients.
  template <class Happens, class Ready, class Ended>
  LaneTimes play_blocks(LaneTimes state, bool ties, const Happens& happens, const Ready& ready,
                        const Ended& ended) {
    for (std::size_t r = 0; r < chunk_.runs.size(); ++r) {
      const BlockRun& run = chunk_.runs[item_.forward ? r : chunk_.runs.size() - 1 - r];
      const BlockBound& block = play_.work_.block_of(run);
      const BlockWork& work = item_.forward ? block.forward : block.backward;
      for (std::int64_t i = 0; i < run.count; ++i, ++repetition_) {
        const double held = item_.forward ? kNever : copies_.held(block, run.away, state[kCompute]);
        if (ties) play_.note_tied(stage_, block, state, done_);
        LaneTimes after = work.advance(state);
        const bool slowed = loss_ > 0 && stage_.under_way.is_at(state[kCompute]);
        if (slowed || happens()) raise(after, through(block, state, ready, ended));
        after[kCompute] = std::max(after[kCompute], held);
        done_ += work.compute_s;
        state = after;
      }
    }
    return state;
  }

  // Of a bucket that the block at hand completes.
  Sync sync_of(const BoundBucket& bucket, const BucketPrice& price, double ended,
               const BlockBound& block, const LaneTimes& before) const {
    const BlockWeight& weight = block.weights[bucket.weight];
    return {.ready = std::max(ended, at(weight.complete, before)),
            .done_s = done_ + weight.compute_before_s,
            .elements = bucket.elements,
            .of_layers = bucket.of_layers,
            .routed = bucket.routed,
            .price = price};
  }

  StagePlay& play_;
  Stage& stage_;
  const PipelineItem& item_;
  const ChunkWork& chunk_;
  std::int64_t repetition_ = 0;  // of blocks, that have been played

 private:
  template <class Ready, class Ended>
  LaneTimes through(const BlockBound& block, const LaneTimes& state, const Ready& ready,
                    const Ended& ended) {
    LaneTimes after = play_steps(
        block.steps[item_.forward ? 0 : 1], state, finish_, ready,
        [&](const BlockStep& step, double start) {
          return stage_.under_way.slowed(start, step, loss_);
        },
        [&](std::uint16_t step, double finish, double& came) {
          ended(step, finish, came, block, state);
        });
    ended(kLastStep, kNever, after[kCompute], block, state);
    return after;
  }

  const double loss_;
  CopiesBack copies_;
  double done_;                 // of the stage's kernels
  std::vector<double> finish_;  // of a block's steps
};

}  // namespace meshwright

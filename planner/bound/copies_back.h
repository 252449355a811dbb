#pragma once

#include <algorithm>
#include <utility>

#include "planner/bound/stage_play.h"

namespace meshwright {

// Copies to the device run one after the other. Those for a layer begin when the backward has come
// to the layer behind it, those for the last one not before the entry ahead of this one; and what
// went to the host last comes back first where the entry follows its own forward, tensor by tensor.
class StagePlay::CopiesBack {
 public:
  CopiesBack(StagePlay& play, Stage& stage, const PipelineItem& item)
      : play_(play), stage_(stage), came_(stage.previous_start) {
    // Layers that are rerun together keep less than any by itself.
    const RecomputeChoice& recompute = play.choices_.recompute;
    copies_ = play.choices_.offload_activations &&
              (recompute.kind != Recompute::Uniform || recompute.layers == 1);
    if (!copies_) return;
    const bool own =
        stage.forward.chunk == item.chunk && stage.forward.microbatch == item.microbatch;
    if (own) stage.copied_back = std::max(stage.copied_back, stage.copied_but_last);
    stays_ = play.work_.chunk(static_cast<std::size_t>(item.chunk)).turns;
  }

  // When the backward of a layer is over at the earliest, that computing has come to.
  double held(const BlockBound& block, bool away, double comes) {
    if (!copies_ || !block.layer) return kNever;
    const bool stays = std::exchange(stays_, false);
    const double came = std::exchange(came_, comes);
    if (stays || !away) return kNever;
    stage_.copied_back = std::max(stage_.copied_back, came) + play_.copy_s(block.memory.back);
    return stage_.copied_back + block.after_back_s;
  }

 private:
  StagePlay& play_;
  Stage& stage_;
  double came_;  // computing, to the layer behind
  bool copies_ = false;
  bool stays_ = false;  // what the last layer keeps
};

}  // namespace meshwright

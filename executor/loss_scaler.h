#pragma once

#include <algorithm>
#include <cstdint>

#include "costmodel/base/precision.h"
#include "executor/step_settings.h"

namespace meshwright {

// How the loss is scaled in fp16, whose smallest numbers are larger than many gradients
// (Micikevicius et al. 2018, section 3.2). As PyTorch's GradScaler has it, but for the bounds: no
// scale below 1 helps, and 2^24 is the largest that Apex takes.
struct LossScaling {
  double first = 65536;            // a power of 2
  std::int64_t good_steps = 2000;  // in a row, after which it is doubled
};
inline constexpr double kLeastLossScale = 1, kMostLossScale = 16777216;

// The scale from step to step. All devices come to the same one, for they skip the same steps.
class LossScaler {
 public:
  LossScaler(Precision precision, const LossScaling& scaling)
      : scales_(precision == Precision::FP16),
        good_steps_(scaling.good_steps),
        scale_(scales_ ? scaling.first : 1) {}

  // Of the next step.
  void set(StepSettings& settings) const {
    settings.loss_scale = scale_;
    settings.skipped = skipped_;
  }

  // What came of it.
  void take(bool skipped) {
    if (!scales_) return;
    skipped_ += skipped ? 1 : 0;
    good_ = skipped ? 0 : good_ + 1;
    if (skipped) scale_ = std::max(scale_ / 2, kLeastLossScale);
    if (good_ < good_steps_) return;
    scale_ = std::min(scale_ * 2, kMostLossScale);
    good_ = 0;
  }

 private:
  bool scales_;
  std::int64_t good_steps_;
  double scale_;
  std::int64_t good_ = 0, skipped_ = 0;
};

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <limits>

#include "executor/adamw_factors.h"
#include "executor/math.h"
#include "executor/step_settings.h"

namespace meshwright {

// What the kernels of a GPU read of a step's settings: from its memory, so that a launch is the
// same in every step.
struct StepNumbers {
  std::int64_t step = 0;
  double label_share = 1, loss_slope = 1, loss_scale = 1;
  double clip = std::numeric_limits<double>::infinity();  // infinite: gradients are not clipped
  AdamWFactors decaying, other;                           // of weights
};

inline StepNumbers step_numbers(const StepSettings& settings) {
  return {.step = settings.step,
          .label_share = settings.label_share,
          .loss_slope = loss_slope(settings),
          .loss_scale = settings.loss_scale,
          .clip = settings.clip.value_or(std::numeric_limits<double>::infinity()),
          .decaying = adamw_factors(settings, true),
          .other = adamw_factors(settings, false)};
}

}  // namespace meshwright

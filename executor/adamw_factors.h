#pragma once

#include <cmath>

#include "executor/math.h"
#include "executor/step_settings.h"

namespace meshwright {

// For gradients that are not scaled.
inline AdamWFactors adamw_factors(const StepSettings& settings, bool decay) {
  const auto step = static_cast<double>(settings.step - settings.skipped + 1);
  return {.keep = decay ? 1 - settings.learning_rate * settings.weight_decay : 1.0,
          .beta1 = settings.beta1,
          .beta2 = settings.beta2,
          .epsilon = settings.epsilon,
          .rate = settings.learning_rate / (1 - std::pow(settings.beta1, step)),
          .deviation = std::sqrt(1 - std::pow(settings.beta2, step))};
}

}  // namespace meshwright

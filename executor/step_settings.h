#pragma once

#include <cstdint>
#include <optional>

namespace meshwright {

// What kernels need to know that is not in a Program.
struct StepSettings {
  std::uint64_t seed = 0;
  std::int64_t step = 0;     // counts from 0
  std::int64_t skipped = 0;  // of the steps before, those that left the weights as they were
  double label_share = 1;    // 1 / the number of labels that count in the global batch
  // What gradients are multiplied by from the loss on, and divided by before they are used: a power
  // of 2, so that it changes no bit but of those that are out of a precision's range.
  double loss_scale = 1;
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  std::optional<double> clip;  // the largest norm of all gradients; none: they are not scaled
  friend bool operator==(const StepSettings&, const StepSettings&) = default;
};

// How the scaled loss of the global batch changes with what one label costs.
inline double loss_slope(const StepSettings& settings) {
  return settings.label_share * settings.loss_scale;
}

}  // namespace meshwright

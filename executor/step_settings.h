#pragma once

#include <cstdint>
#include <optional>

namespace meshwright {

// What kernels need to know that is not in a Program.
struct StepSettings {
  std::uint64_t seed = 0;
  std::int64_t step = 0;  // counts from 0
  double loss_scale = 1;  // 1 / the number of labels that count in the global batch
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  std::optional<double> clip;  // the largest norm of all gradients; none: they are not scaled
  friend bool operator==(const StepSettings&, const StepSettings&) = default;
};

}  // namespace meshwright

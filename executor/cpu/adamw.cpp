#include <cmath>

#include "executor/cpu/kernels.h"
#include "executor/math.h"

namespace meshwright {
namespace {

AdamWFactors factors_of(const KernelCall& call) {
  const StepSettings& s = call.settings;
  const auto step = static_cast<double>(s.step + 1);
  return {.gradient = call.data<const double>(1)[0],
          .keep = call.kernel.decay ? 1 - s.learning_rate * s.weight_decay : 1.0,
          .beta1 = s.beta1,
          .beta2 = s.beta2,
          .epsilon = s.epsilon,
          .rate = s.learning_rate / (1 - std::pow(s.beta1, step)),
          .deviation = std::sqrt(1 - std::pow(s.beta2, step))};
}

}  // namespace

template <class Real>
void adamw_step(const KernelCall& call) {
  const AdamWFactors factors = factors_of(call);
  const auto gradient = call.vector<const Real>(0);
  const auto weight = call.vector<Real>(2);
  const auto m = call.vector<Real>(3);
  const auto v = call.vector<Real>(4);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    adamw_element(factors, gradient[i], weight[i], m[i], v[i]);
  }
}

template void adamw_step<float>(const KernelCall&);
template void adamw_step<double>(const KernelCall&);

}  // namespace meshwright

#include "executor/adamw_factors.h"
#include "executor/cpu/kernels.h"
#include "executor/math.h"

namespace meshwright {
namespace {

AdamWFactors factors_of(const KernelCall& call, bool decay) {
  AdamWFactors factors = adamw_factors(call.settings, decay);
  factors.gradient = call.data<const double>(1)[0];
  return factors;
}

}  // namespace

template <class Real>
void adamw_step(const KernelCall& call) {
  const auto gradient = call.vector<const Real>(0);
  const auto weight = call.vector<Real>(2);
  const auto m = call.vector<Real>(3);
  const auto v = call.vector<Real>(4);
  constexpr std::size_t kWithMaster = 6;
  const bool has_master = call.operand_count() == kWithMaster;
  const auto updated = has_master ? call.vector<Real>(5) : weight;
  for (const OperandRange& range : call.kernel.ranges) {
    const AdamWFactors factors = factors_of(call, range.decay);
    const auto first = static_cast<std::size_t>(range.first);
    const auto end = first + static_cast<std::size_t>(range.count);
    if (const auto rate = range.sign_rate) {
      for (std::size_t i = first; i < end; ++i) {
        updated[i] = moved_by_sign(updated[i], gradient[i], *rate);
        weight[i] = updated[i];
      }
      continue;
    }
    for (std::size_t i = first; i < end; ++i) {
      adamw_element(factors, gradient[i], updated[i], m[i], v[i]);
      weight[i] = updated[i];
    }
  }
}

template void adamw_step<float>(const KernelCall&);
template void adamw_step<double>(const KernelCall&);

}  // namespace meshwright

#include <algorithm>
#include <cmath>
#include <limits>

#include "executor/cpu/kernels.h"
#include "executor/exact_sum.h"
#include "executor/math.h"

namespace meshwright {
namespace {

template <class Real>
std::span<const Real> elements_of(const KernelCall& call, const OperandRange& range) {
  return call.vector<const Real>(range.operand)
      .subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.count));
}

template <class Real>
void add_squares(std::span<const Real> gradient, const SquareScale& scale, ExactSum& sum) {
  for (std::size_t start = 0; start < gradient.size(); start += ExactSum::kBlock) {
    const std::size_t stop = std::min<std::size_t>(gradient.size(), start + ExactSum::kBlock);
    for (std::size_t i = start; i < stop; ++i) {
      sum.add(scale.square(static_cast<double>(gradient[i])));
    }
    sum.carry();
  }
}

}  // namespace

template <class Real>
void norm_largest_step(const KernelCall& call) {
  const std::size_t gradients = call.operand_count() - 1;
  double largest = 0;
  bool numbers = true;
  for (const OperandRange& range : call.kernel.ranges) {
    for (const Real g : elements_of<Real>(call, range)) {
      const double size = std::fabs(static_cast<double>(g));
      numbers = numbers && size == size;
      largest = size > largest ? size : largest;
    }
  }
  *call.data<double>(gradients) = numbers ? largest : std::numeric_limits<double>::quiet_NaN();
}

template <class Real>
void norm_sums_step(const KernelCall& call) {
  const std::size_t gradients = call.operand_count() - 2;
  const double largest = *call.data<const double>(gradients);
  const auto sums = call.vector<double>(gradients + 1);
  sums[0] = sums[1] = 0;
  if (!std::isfinite(largest)) sums[0] = largest;
  if (!std::isfinite(largest) || largest == 0) return;
  const SquareScale scale = SquareScale::below_one(largest);
  ExactSum sum;
  for (const OperandRange& range : call.kernel.ranges) {
    add_squares(elements_of<Real>(call, range), scale, sum);
  }
  sums[0] = scale.unscaled(sum.coarse());
  sums[1] = scale.unscaled(sum.fine());
}

void clip_factor_step(const KernelCall& call) {
  const auto sums = call.vector<const double>(0);
  const auto factor = call.vector<double>(1);
  const double clip = call.settings.clip.value_or(std::numeric_limits<double>::infinity());
  const ClippedNorm clipped = clipped_norm(sums.data(), clip, call.settings.loss_scale);
  factor[0] = clipped.factor;
  factor[1] = clipped.norm;
  constexpr std::size_t kWithFlag = 3;
  if (call.operand_count() == kWithFlag) {
    *call.data<std::int32_t>(2) = std::isfinite(clipped.norm) ? 1 : 0;
  }
}

template void norm_largest_step<float>(const KernelCall&);
template void norm_largest_step<double>(const KernelCall&);
template void norm_sums_step<float>(const KernelCall&);
template void norm_sums_step<double>(const KernelCall&);

}  // namespace meshwright

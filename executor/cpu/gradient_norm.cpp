#include <algorithm>
#include <cmath>
#include <limits>

#include "executor/cpu/kernels.h"

namespace meshwright {
namespace {

// Adds numbers in [0, 1] without rounding error after each was rounded to a multiple of 2^-56:
// those to a coarse grid go into one sum, what is left into another, and each sum has its grid's
// room in a double (Rump, Ogita and Oishi 2008; Demmel and Nguyen 2015). So the sum does not
// depend on order. Room: the coarse sum is below 2^36 on a grid of 2^-17, 53 bits; the fine one
// below 2^-3 on a grid of 2^-56; what is left of the fine one after `carry` is at most 2^-18, so
// that 2^14 devices can add theirs.
class ExactSum {
 public:
  static constexpr std::int64_t kBlock = 1 << 14;  // additions between two carries

  void add(double x) {
    const double coarse = on_coarse_grid(x);
    coarse_ += coarse;
    fine_ += ((x - coarse) + kFine) - kFine;
  }
  void carry() {
    const double coarse = on_coarse_grid(fine_);
    coarse_ += coarse;
    fine_ -= coarse;
  }
  double coarse() const { return coarse_; }
  double fine() const { return fine_; }

 private:
  // Adding 1.5 * 2^52 units rounds to whole units.
  static constexpr double kCoarse = 0x1.8p35;  // unit 2^-17
  static constexpr double kFine = 0x1.8p-4;    // unit 2^-56
  static double on_coarse_grid(double x) { return (x + kCoarse) - kCoarse; }

  double coarse_ = 0, fine_ = 0;
};

template <class Real>
std::span<const Real> elements_of(const KernelCall& call, const OperandRange& range) {
  return call.vector<const Real>(range.operand)
      .subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.count));
}

template <class Real>
void add_squares(std::span<const Real> gradient, int exponent, ExactSum& sum) {
  // A power of two, in two factors because one may be beyond a double.
  const double half = std::ldexp(1.0, -exponent / 2);
  const double rest = std::ldexp(1.0, -exponent - (-exponent / 2));
  for (std::size_t start = 0; start < gradient.size(); start += ExactSum::kBlock) {
    const std::size_t stop = std::min<std::size_t>(gradient.size(), start + ExactSum::kBlock);
    for (std::size_t i = start; i < stop; ++i) {
      const double x = static_cast<double>(gradient[i]) * half * rest;
      sum.add(x * x);
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
  const int exponent = std::ilogb(largest) + 1;  // largest < 2^exponent
  ExactSum sum;
  for (const OperandRange& range : call.kernel.ranges) {
    add_squares(elements_of<Real>(call, range), exponent, sum);
  }
  sums[0] = std::ldexp(sum.coarse(), 2 * exponent);
  sums[1] = std::ldexp(sum.fine(), 2 * exponent);
}

void clip_factor_step(const KernelCall& call) {
  const auto sums = call.vector<const double>(0);
  const auto factor = call.vector<double>(1);
  const double norm = std::sqrt(sums[0] + sums[1]);
  const auto clip = call.settings.clip;
  factor[0] = clip && norm > *clip ? *clip / norm : 1.0;
  factor[1] = norm;
}

template void norm_largest_step<float>(const KernelCall&);
template void norm_largest_step<double>(const KernelCall&);
template void norm_sums_step<float>(const KernelCall&);
template void norm_sums_step<double>(const KernelCall&);

}  // namespace meshwright

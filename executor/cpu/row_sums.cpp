#include "executor/cpu/kernels.h"
#include "executor/math.h"

// In doubles, so that the sum of parts of a row is that of the row.
namespace meshwright {

template <class Real>
void row_sums_forward(const KernelCall& call) {
  const auto x = call.dense_rows<const Real>(0);
  double* sums = call.data<double>(1);
  for (std::int64_t r = 0; r < x.count(); ++r) {
    const Real* row = x[r];
    double sum = 0, squares = 0;
    for (std::int64_t c = 0; c < x.columns; ++c) {
      const auto value = static_cast<double>(row[c]);
      sum += value;
      squares += value * value;
    }
    sums[2 * r] = sum;
    sums[2 * r + 1] = squares;
  }
}

template <class Real>
void row_sums_input_gradient(const KernelCall& call) {
  constexpr std::size_t kWithMean = 6;
  const bool has_mean = call.operand_count() == kWithMean;
  const std::size_t scale_at = has_mean ? 3 : 2;
  const auto x = call.dense_rows<const Real>(0);
  const auto gain = call.vector<const Real>(1);
  const auto mean = call.elements<const Real>(2);
  const auto scale = call.elements<const Real>(scale_at);
  const auto dy = call.dense_rows<const Real>(scale_at + 1);
  double* sums = call.data<double>(scale_at + 2);
  const Real shift = gain_shift<Real>(call.attributes<NormAttributes>());
  for (std::int64_t r = 0; r < x.count(); ++r) {
    const Real *row = x[r], *gradient = dy[r];
    const RowMoments<Real> moments{has_mean ? mean[r] : Real(0), scale[r]};
    double sum = 0, products = 0;
    for (std::int64_t c = 0; c < x.columns; ++c) {
      const Real g = (gain[static_cast<std::size_t>(c)] + shift) * gradient[c];
      sum += static_cast<double>(g);
      products += static_cast<double>(g * normalized(row[c], moments));
    }
    sums[2 * r] = sum;
    sums[2 * r + 1] = products;
  }
}

template void row_sums_forward<float>(const KernelCall&);
template void row_sums_forward<double>(const KernelCall&);
template void row_sums_input_gradient<float>(const KernelCall&);
template void row_sums_input_gradient<double>(const KernelCall&);

}  // namespace meshwright

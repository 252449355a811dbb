#include <algorithm>

#include "executor/cpu/kernels.h"
#include "executor/math.h"

namespace meshwright {

template <class Real>
void layer_norm_forward(const KernelCall& call) {
  const auto x = call.dense_rows<const Real>(0);
  const auto gain = call.vector<const Real>(1);
  const auto bias = call.vector<const Real>(2);
  const auto whole = call.row_sums(3);
  const std::size_t first = whole ? 4 : 3;
  const auto y = call.dense_rows<Real>(first);
  const auto mean = call.elements<Real>(first + 1);
  const auto scale = call.elements<Real>(first + 2);
  const double epsilon = call.attributes<NormAttributes>().epsilon;
  for (std::int64_t r = 0; r < x.count(); ++r) {
    const auto moments = whole ? moments_of_sums<Real>((*whole)[r], whole->length, epsilon)
                               : row_moments(x[r], x.columns, epsilon);
    norm_row(x[r], gain.data(), gain_shift<Real>(call.attributes<NormAttributes>()), bias.data(),
             moments, x.columns, y[r]);
    mean[r] = moments.mean;
    scale[r] = moments.scale;
  }
}

template <class Real>
void layer_norm_input_gradient(const KernelCall& call) {
  const bool has_addend = call.kernel.has_addend;
  const auto x = call.dense_rows<const Real>(0);
  const auto gain = call.vector<const Real>(1);
  const auto mean = call.elements<const Real>(2);
  const auto scale = call.elements<const Real>(3);
  const auto dy = call.dense_rows<const Real>(4);
  const auto whole = call.row_sums(5);
  const std::size_t last = call.operand_count() - 1;
  const auto addend = call.dense_rows<const Real>(has_addend ? last - 1 : 4);
  const auto dx = call.dense_rows<Real>(last);
  const Real shift = gain_shift<Real>(call.attributes<NormAttributes>());
  for (std::int64_t r = 0; r < x.count(); ++r) {
    const RowMoments<Real> moments{mean[r], scale[r]};
    const Real* added = has_addend ? addend[r] : nullptr;
    if (whole) {
      const SlopeMeans<Real> means{whole->template mean<Real>(r, 0),
                                   whole->template mean<Real>(r, 1)};
      norm_row_gradient(x[r], gain.data(), shift, moments, dy[r], means, added, x.columns, dx[r]);
    } else {
      norm_row_gradient(x[r], gain.data(), shift, moments, dy[r], added, x.columns, dx[r]);
    }
  }
}

template <class Real>
void layer_norm_weight_gradient(const KernelCall& call) {
  const auto x = call.dense_rows<const Real>(0);
  const auto mean = call.elements<const Real>(1);
  const auto scale = call.elements<const Real>(2);
  const auto dy = call.dense_rows<const Real>(3);
  const auto dgain = call.vector<Real>(4);
  const auto dbias = call.vector<Real>(5);
  if (!call.kernel.accumulate) {
    std::ranges::fill(dgain, Real(0));
    std::ranges::fill(dbias, Real(0));
  }
  for (std::int64_t r = 0; r < x.count(); ++r) {
    const Real* row = x[r];
    const Real* gradient = dy[r];
    const Real row_mean = mean[r], row_scale = scale[r];
    for (std::size_t c = 0; c < dgain.size(); ++c) {
      dgain[c] += gradient[c] * ((row[c] - row_mean) * row_scale);
      dbias[c] += gradient[c];
    }
  }
}

template void layer_norm_forward<float>(const KernelCall&);
template void layer_norm_forward<double>(const KernelCall&);
template void layer_norm_input_gradient<float>(const KernelCall&);
template void layer_norm_input_gradient<double>(const KernelCall&);
template void layer_norm_weight_gradient<float>(const KernelCall&);
template void layer_norm_weight_gradient<double>(const KernelCall&);

}  // namespace meshwright

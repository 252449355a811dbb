#include <algorithm>

#include "executor/cpu/kernels.h"
#include "executor/math.h"

namespace meshwright {

template <class Real>
void layer_norm_forward(const KernelCall& call) {
  const auto x = call.dense_rows<const Real>(0);
  const auto gain = call.vector<const Real>(1);
  const auto bias = call.vector<const Real>(2);
  const auto y = call.dense_rows<Real>(3);
  const auto mean = call.elements<Real>(4);
  const auto scale = call.elements<Real>(5);
  for (std::int64_t r = 0; r < x.count(); ++r) {
    const auto moments = row_moments(x[r], x.columns, call.attributes<NormAttributes>().epsilon);
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
  const auto addend = call.dense_rows<const Real>(has_addend ? 5 : 4);
  const auto dx = call.dense_rows<Real>(has_addend ? 6 : 5);
  for (std::int64_t r = 0; r < x.count(); ++r) {
    norm_row_gradient(x[r], gain.data(), gain_shift<Real>(call.attributes<NormAttributes>()),
                      RowMoments<Real>{mean[r], scale[r]}, dy[r], has_addend ? addend[r] : nullptr,
                      x.columns, dx[r]);
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

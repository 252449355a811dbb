#include <algorithm>

#include "executor/cpu/kernels.h"
#include "executor/math.h"

namespace meshwright {

template <class Real>
void rms_norm_forward(const KernelCall& call) {
  const auto& norm = call.attributes<NormAttributes>();
  const auto x = call.dense_rows<const Real>(0);
  const auto gain = call.vector<const Real>(1);
  const auto whole = call.row_sums(2);
  const auto y = call.dense_rows<Real>(whole ? 3 : 2);
  const auto scale = call.elements<Real>(whole ? 4 : 3);
  for (std::int64_t r = 0; r < x.count(); ++r) {
    scale[r] = whole ? inverse_deviation(whole->template mean<Real>(r, 1), norm.epsilon)
                     : rms_scale(x[r], x.columns, norm.epsilon);
    rms_norm_row(x[r], gain.data(), gain_shift<Real>(norm), scale[r], x.columns, y[r]);
  }
}

template <class Real>
void rms_norm_input_gradient(const KernelCall& call) {
  const bool has_addend = call.kernel.has_addend;
  const auto x = call.dense_rows<const Real>(0);
  const auto gain = call.vector<const Real>(1);
  const auto scale = call.elements<const Real>(2);
  const auto dy = call.dense_rows<const Real>(3);
  const auto whole = call.row_sums(4);
  const std::size_t last = call.operand_count() - 1;
  const auto addend = call.dense_rows<const Real>(has_addend ? last - 1 : 3);
  const auto dx = call.dense_rows<Real>(last);
  const Real shift = gain_shift<Real>(call.attributes<NormAttributes>());
  for (std::int64_t r = 0; r < x.count(); ++r) {
    const Real* added = has_addend ? addend[r] : nullptr;
    if (whole) {
      rms_norm_row_gradient(x[r], gain.data(), shift, scale[r], dy[r],
                            whole->template mean<Real>(r, 1), added, x.columns, dx[r]);
    } else {
      rms_norm_row_gradient(x[r], gain.data(), shift, scale[r], dy[r], added, x.columns, dx[r]);
    }
  }
}

template <class Real>
void rms_norm_weight_gradient(const KernelCall& call) {
  const auto x = call.dense_rows<const Real>(0);
  const auto scale = call.elements<const Real>(1);
  const auto dy = call.dense_rows<const Real>(2);
  const auto dgain = call.vector<Real>(3);
  if (!call.kernel.accumulate) std::ranges::fill(dgain, Real(0));
  for (std::int64_t r = 0; r < x.count(); ++r) {
    const Real* row = x[r];
    const Real* gradient = dy[r];
    const Real row_scale = scale[r];
    for (std::size_t c = 0; c < dgain.size(); ++c) dgain[c] += gradient[c] * (row[c] * row_scale);
  }
}

template void rms_norm_forward<float>(const KernelCall&);
template void rms_norm_forward<double>(const KernelCall&);
template void rms_norm_input_gradient<float>(const KernelCall&);
template void rms_norm_input_gradient<double>(const KernelCall&);
template void rms_norm_weight_gradient<float>(const KernelCall&);
template void rms_norm_weight_gradient<double>(const KernelCall&);

}  // namespace meshwright

#include "executor/cpu/kernels.h"
#include "executor/math.h"

namespace meshwright {

template <class Real>
void loss_largest_forward(const KernelCall& call) {
  const auto logits = call.dense_rows<const Real>(0);
  const auto largest = call.elements<Real>(1);
  for (std::int64_t r = 0; r < logits.count(); ++r) {
    largest[r] = row_largest(logits[r], logits.columns);
  }
}

template <class Real>
void loss_sums_forward(const KernelCall& call) {
  const auto logits = call.dense_rows<const Real>(0);
  const auto label = call.elements<const std::int32_t>(1);
  const auto largest = call.elements<const Real>(2);
  const auto sums = call.rows<Real>(3);
  for (std::int64_t r = 0; r < logits.count(); ++r) {
    const std::int64_t column = label[r] - call.kernel.first_row;
    const bool here = label[r] >= 0 && column >= 0 && column < logits.columns;
    sums[r][0] = row_exponentials(logits[r], largest[r], logits.columns);
    sums[r][sums.step] = here ? logits[r][column] : Real(0);
  }
}

template <class Real>
void loss_forward(const KernelCall& call) {
  const auto label = call.elements<const std::int32_t>(0);
  const auto largest = call.elements<const Real>(1);
  const auto sums = call.rows<const Real>(2);
  double& loss = *call.data<double>(3);
  const double share = call.settings.label_share * loss_factor(call.kernel);
  for (std::int64_t r = 0; r < label.count(); ++r) {
    if (label[r] < 0) continue;
    const auto sum = static_cast<double>(sums[r][0]);
    const auto logit = static_cast<double>(sums[r][sums.step]);
    loss += share * label_loss(sum, static_cast<double>(largest[r]), logit);
  }
}

template <class Real>
void loss_input_gradient(const KernelCall& call) {
  const auto logits = call.dense_rows<const Real>(0);
  const auto label = call.elements<const std::int32_t>(1);
  const auto largest = call.elements<const Real>(2);
  const auto sums = call.rows<const Real>(3);
  const auto dlogits = call.dense_rows<Real>(4);
  const auto scale = static_cast<Real>(loss_slope(call.settings) * loss_factor(call.kernel));
  for (std::int64_t r = 0; r < logits.count(); ++r) {
    const Real* x = logits[r];
    Real* dx = dlogits[r];
    const bool counts = label[r] >= 0;
    const Real factor = counts ? scale / sums[r][0] : Real(0);
    const Real row_top = largest[r];
    for (std::int64_t c = 0; c < logits.columns; ++c) {
      dx[c] = counts ? logit_slope(x[c], row_top, factor) : Real(0);
    }
    const std::int64_t column = label[r] - call.kernel.first_row;
    if (counts && column >= 0 && column < logits.columns) dx[column] -= scale;
  }
}

template void loss_largest_forward<float>(const KernelCall&);
template void loss_largest_forward<double>(const KernelCall&);
template void loss_sums_forward<float>(const KernelCall&);
template void loss_sums_forward<double>(const KernelCall&);
template void loss_forward<float>(const KernelCall&);
template void loss_forward<double>(const KernelCall&);
template void loss_input_gradient<float>(const KernelCall&);
template void loss_input_gradient<double>(const KernelCall&);

}  // namespace meshwright

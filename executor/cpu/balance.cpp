#include <numeric>

#include "executor/cpu/kernels.h"
#include "executor/cpu/router_scores.h"
#include "executor/router_math.h"

// The loss of an uneven choice of experts, of each sequence by itself (DeepSeek-V3, arXiv
// 2412.19437, equations 17 to 20): of s tokens with k choices among e experts, e / (k s) times the
// choices of each expert, times the mean over tokens of its share of the token's scores, summed
// over experts, and the mean of that over sequences.
namespace meshwright {
namespace {

template <class Real>
Real sum_of(const std::vector<Real>& scores) {
  return std::accumulate(scores.begin(), scores.end(), Real(0));
}

}  // namespace

template <class Real>
void balance_sums_forward(const KernelCall& call) {
  const bool sigmoid = call.attributes<RouterAttributes>().sigmoid;
  const auto logits = call.dense_rows<const Real>(0);
  const auto expert = call.dense_rows<const std::int32_t>(1);
  const auto sums = call.dense_rows<double>(2);
  const std::int64_t sequence = call.operand(0).sizes[1];
  std::vector<Real> scores(static_cast<std::size_t>(logits.columns));
  for (std::int64_t r = 0; r < sums.count(); ++r) std::fill_n(sums[r], sums.columns, 0.0);
  for (std::int64_t r = 0; r < logits.count(); ++r) {
    double* const choices = sums[r / sequence * 2];
    double* const shares = sums[r / sequence * 2 + 1];
    for (std::int64_t c = 0; c < expert.columns; ++c) ++choices[chosen_expert(expert[r][c])];
    scores_of(logits[r], sigmoid, scores);
    const auto all = static_cast<double>(sum_of(scores));
    for (std::size_t e = 0; e < scores.size(); ++e) {
      shares[e] += static_cast<double>(scores[e]) / all;
    }
  }
}

void balance_forward(const KernelCall& call) {
  const auto sums = call.dense_rows<const double>(0);
  double& loss = *call.data<double>(1);
  const BalanceFactor factor = balance_factor(call.kernel, sums.columns);
  const double part = balance_part(call.kernel);
  for (std::int64_t b = 0; b < sums.count() / 2; ++b) {
    const double* const choices = sums[2 * b];
    const double* const shares = sums[2 * b + 1];
    const double all = std::accumulate(choices, choices + sums.columns, 0.0);
    const double products = std::inner_product(choices, choices + sums.columns, shares, 0.0);
    loss += part * factor.of(all) * products;
  }
}

// Choices are what they are: only shares have slopes.
template <class Real>
void balance_input_gradient(const KernelCall& call) {
  const bool sigmoid = call.attributes<RouterAttributes>().sigmoid;
  const bool has_addend = call.kernel.has_addend;
  const auto logits = call.dense_rows<const Real>(0);
  const auto sums = call.dense_rows<const double>(1);
  const auto dlogits = call.dense_rows<Real>(has_addend ? 3 : 2);
  const std::int64_t sequence = call.operand(0).sizes[1];
  std::vector<Real> scores(static_cast<std::size_t>(logits.columns));
  for (std::int64_t r = 0; r < logits.count(); ++r) {
    const double* const choices = sums[r / sequence * 2];
    const double all = std::accumulate(choices, choices + sums.columns, 0.0);
    const auto factor = static_cast<Real>(call.settings.loss_scale *
                                          balance_factor(call.kernel, sums.columns).of(all));
    scores_of(logits[r], sigmoid, scores);
    const Real whole = sum_of(scores);
    Real mean = 0;
    for (std::size_t e = 0; e < scores.size(); ++e) {
      mean += static_cast<Real>(choices[e]) * scores[e] / whole;
    }
    for (std::size_t e = 0; e < scores.size(); ++e) {
      const Real known = has_addend ? call.dense_rows<const Real>(2)[r][e] : Real(0);
      const Real slope = scores[e] / whole * (sigmoid ? 1 - scores[e] : Real(1));
      dlogits[r][e] = known + factor * slope * (static_cast<Real>(choices[e]) - mean);
    }
  }
}

template void balance_sums_forward<float>(const KernelCall&);
template void balance_sums_forward<double>(const KernelCall&);
template void balance_input_gradient<float>(const KernelCall&);
template void balance_input_gradient<double>(const KernelCall&);

}  // namespace meshwright

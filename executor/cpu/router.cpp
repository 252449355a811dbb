#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "executor/cpu/kernels.h"
#include "executor/cpu/router_scores.h"
#include "executor/router_math.h"

namespace meshwright {
namespace {

// The places of the `count` largest, largest first and of equal ones the earlier.
template <class Real>
std::vector<std::size_t> largest_places(const std::vector<Real>& values, std::size_t count) {
  std::vector<std::size_t> places(values.size());
  std::iota(places.begin(), places.end(), 0);
  const auto middle = places.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(places.begin(), middle, places.end(), [&](std::size_t a, std::size_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
  places.resize(count);
  return places;
}

// A group of experts is as good as its best one (DeepSeek-V2), or as its two best together where
// scores are sigmoids (DeepSeek-V3).
template <class Real>
Real group_score(const Real* scores, std::size_t size, bool sigmoid) {
  constexpr Real kNone = -std::numeric_limits<Real>::infinity();
  Real best = kNone, second = kNone;
  for (std::size_t e = 0; e < size; ++e) {
    if (scores[e] > best) {
      second = std::exchange(best, scores[e]);
    } else {
      second = std::max(second, scores[e]);
    }
  }
  return sigmoid && size > 1 ? best + second : best;
}

template <class Real>
std::vector<std::size_t> choose(std::vector<Real> scores, const RouterAttributes& router,
                                std::size_t count) {
  const auto groups = static_cast<std::size_t>(router.groups);
  if (groups > 1) {
    const std::size_t size = scores.size() / groups;
    std::vector<Real> by_group(groups);
    for (std::size_t g = 0; g < groups; ++g) {
      by_group[g] = group_score(&scores[g * size], size, router.sigmoid);
    }
    const auto chosen = largest_places(by_group, static_cast<std::size_t>(router.chosen_groups));
    for (std::size_t e = 0; e < scores.size(); ++e) {
      if (std::ranges::count(chosen, e / size) == 0) {
        scores[e] = -std::numeric_limits<Real>::infinity();
      }
    }
  }
  return largest_places(scores, count);
}

}  // namespace

template <class Real>
void router_forward(const KernelCall& call) {
  const auto& router = call.attributes<RouterAttributes>();
  constexpr std::size_t kWithBias = 4;
  const bool has_bias = call.operand_count() == kWithBias;
  const auto logits = call.dense_rows<const Real>(0);
  const auto share = call.dense_rows<Real>(has_bias ? 2 : 1);
  const auto expert = call.dense_rows<std::int32_t>(has_bias ? 3 : 2);
  const std::int64_t sequence = call.operand(0).sizes[1];
  std::vector<Real> scores(static_cast<std::size_t>(logits.columns)), judged;
  std::vector<std::int64_t> taken(scores.size());
  for (std::int64_t r = 0; r < logits.count(); ++r) {
    if (r % sequence == 0) std::ranges::fill(taken, 0);
    scores_of(logits[r], router.sigmoid, scores);
    judged = scores;
    for (std::size_t e = 0; e < judged.size() && has_bias; ++e) {
      judged[e] += call.vector<const Real>(1)[e];
    }
    const auto chosen = choose(judged, router, static_cast<std::size_t>(share.columns));
    Real sum = router.renormalize ? Real(0) : Real(1);
    for (const std::size_t e : chosen) sum += router.renormalize ? scores[e] : Real(0);
    for (std::size_t c = 0; c < chosen.size(); ++c) {
      const auto e = static_cast<std::int32_t>(chosen[c]);
      share[r][c] = static_cast<Real>(router.factor) * scores[chosen[c]] / sum;
      const bool fits = !call.kernel.capacity || taken[chosen[c]]++ < *call.kernel.capacity;
      expert[r][c] = fits ? e : ~e;
    }
  }
}

template <class Real>
void router_input_gradient(const KernelCall& call) {
  const auto& router = call.attributes<RouterAttributes>();
  const bool has_addend = call.kernel.has_addend;
  const auto logits = call.dense_rows<const Real>(0);
  const auto expert = call.dense_rows<const std::int32_t>(1);
  const auto dshare = call.dense_rows<const Real>(2);
  const auto dlogits = call.dense_rows<Real>(has_addend ? 4 : 3);
  const auto experts = static_cast<std::size_t>(logits.columns);
  std::vector<Real> scores(experts), dscores(experts);
  for (std::int64_t r = 0; r < logits.count(); ++r) {
    scores_of(logits[r], router.sigmoid, scores);
    std::ranges::fill(dscores, Real(0));
    const auto chosen = [&](std::int64_t c) { return chosen_expert(expert[r][c]); };
    Real sum = 0, weighed = 0;
    for (std::int64_t c = 0; c < expert.columns; ++c) {
      sum += scores[chosen(c)];
      weighed += dshare[r][c] * scores[chosen(c)];
    }
    for (std::int64_t c = 0; c < expert.columns; ++c) {
      const Real d = router.renormalize ? (dshare[r][c] - weighed / sum) / sum : dshare[r][c];
      dscores[chosen(c)] = static_cast<Real>(router.factor) * d;
    }
    Real mean = 0;
    for (std::size_t e = 0; e < experts && !router.sigmoid; ++e) mean += scores[e] * dscores[e];
    for (std::size_t e = 0; e < experts; ++e) {
      const Real slope = router.sigmoid ? scores[e] * (1 - scores[e]) * dscores[e]
                                        : scores[e] * (dscores[e] - mean);
      const Real known = has_addend ? call.dense_rows<const Real>(3)[r][e] : Real(0);
      dlogits[r][e] = known + slope;
    }
  }
}

// Experts times the choices of each, less all choices: 0 for an equal share, and the sum over all
// tokens of a step is what the step's choices are off by.
template <class Real>
void router_weight_gradient(const KernelCall& call) {
  const auto expert = call.dense_rows<const std::int32_t>(0);
  const auto dbias = call.vector<Real>(1);
  const double unit = bias_unit(call.kernel, expert.columns);
  std::vector<std::int64_t> choices(dbias.size(), 0);
  for (std::int64_t r = 0; r < expert.count(); ++r) {
    for (std::int64_t c = 0; c < expert.columns; ++c) ++choices[chosen_expert(expert[r][c])];
  }
  const std::int64_t all = expert.count() * expert.columns;
  for (std::size_t e = 0; e < dbias.size(); ++e) {
    const std::int64_t excess = choices[e] * static_cast<std::int64_t>(dbias.size()) - all;
    const Real before = call.kernel.accumulate ? dbias[e] : Real(0);
    dbias[e] = before + static_cast<Real>(static_cast<double>(excess) * unit);
  }
}

template void router_forward<float>(const KernelCall&);
template void router_forward<double>(const KernelCall&);
template void router_input_gradient<float>(const KernelCall&);
template void router_input_gradient<double>(const KernelCall&);
template void router_weight_gradient<float>(const KernelCall&);
template void router_weight_gradient<double>(const KernelCall&);

}  // namespace meshwright

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace meshwright {

// A token's scores of all experts: the softmax of its logits, or the sigmoid of each.
template <class Real>
void scores_of(const Real* logits, bool sigmoid, std::vector<Real>& scores) {
  if (sigmoid) {
    for (std::size_t e = 0; e < scores.size(); ++e) scores[e] = 1 / (1 + std::exp(-logits[e]));
    return;
  }
  const Real largest = *std::max_element(logits, logits + scores.size());
  Real sum = 0;
  for (std::size_t e = 0; e < scores.size(); ++e) sum += scores[e] = std::exp(logits[e] - largest);
  for (Real& score : scores) score /= sum;
}

}  // namespace meshwright

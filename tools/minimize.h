#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace meshwright {

// A point where a function of several variables is small, found by the downhill simplex of Nelder
// and Mead ("A simplex method for function minimization", 1965) from `start`, with first steps of
// `step`. Deterministic; no derivatives; a local minimum.
inline std::vector<double> minimize(const std::function<double(const std::vector<double>&)>& cost,
                                    std::vector<double> start, double step, int rounds) {
  using Corner = std::pair<double, std::vector<double>>;
  const std::size_t n = start.size();
  std::vector<Corner> corners = {{cost(start), start}};
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> moved = start;
    moved[i] += step;
    corners.emplace_back(cost(moved), moved);
  }
  const auto by_cost = [](const Corner& a, const Corner& b) { return a.first < b.first; };
  for (int round = 0; round < rounds; ++round) {
    std::stable_sort(corners.begin(), corners.end(), by_cost);
    const Corner worst = corners[n];
    // The worst corner mirrored at the middle of the others, `times` as far.
    const auto mirrored = [&](double times) {
      std::vector<double> point(n);
      for (std::size_t j = 0; j < n; ++j) {
        double middle = 0;
        for (std::size_t i = 0; i < n; ++i) middle += corners[i].second[j];
        middle /= static_cast<double>(n);
        point[j] = middle + times * (middle - worst.second[j]);
      }
      const double value = cost(point);
      return Corner(value, std::move(point));
    };
    const Corner reflected = mirrored(1);
    if (reflected.first < corners[0].first) {
      corners[n] = std::min(mirrored(2), reflected, by_cost);
      continue;
    }
    if (reflected.first < corners[n - 1].first) {
      corners[n] = reflected;
      continue;
    }
    const Corner inside = mirrored(reflected.first < worst.first ? 0.5 : -0.5);
    if (inside.first < std::min(reflected.first, worst.first)) {
      corners[n] = inside;
      continue;
    }
    for (std::size_t i = 1; i <= n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        corners[i].second[j] = (corners[0].second[j] + corners[i].second[j]) / 2;
      }
      corners[i].first = cost(corners[i].second);
    }
  }
  return std::min_element(corners.begin(), corners.end(), by_cost)->second;
}

}  // namespace meshwright

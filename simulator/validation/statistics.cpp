#include "simulator/validation/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace meshwright {
namespace {

// From 1; equal values have the mean of the ranks they take up.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double rank = static_cast<double>(first + 1 + end) / 2;
    for (std::size_t i = first; i < end; ++i) result[order[i]] = rank;
    first = end;
  }
  return result;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<double> pearson(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean_a = mean(a), mean_b = mean(b);
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  if (aa == 0 || bb == 0) return std::nullopt;
  return ab / std::sqrt(aa * bb);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

double error_of(const Pair& pair) { return pair.predicted / pair.measured - 1; }

std::optional<ErrorSummary> summarize_errors(std::span<const Pair> pairs) {
  if (pairs.empty()) return std::nullopt;
  std::vector<double> errors, sizes;
  for (const Pair& pair : pairs) {
    errors.push_back(error_of(pair));
    sizes.push_back(std::abs(errors.back()));
  }
  const auto worst = std::ranges::max_element(sizes) - sizes.begin();
  return ErrorSummary{.mean = mean(sizes),
                      .median = median(sizes),
                      .bias = mean(errors),
                      .worst = errors[static_cast<std::size_t>(worst)]};
}

std::optional<double> spearman(std::span<const Pair> pairs) {
  if (pairs.size() < 2) return std::nullopt;
  std::vector<double> measured, predicted;
  for (const Pair& pair : pairs) {
    measured.push_back(pair.measured);
    predicted.push_back(pair.predicted);
  }
  return pearson(ranks(measured), ranks(predicted));
}

std::optional<double> regret(std::span<const Pair> pairs) {
  if (pairs.size() < 2) return std::nullopt;
  const auto picked = std::ranges::min_element(pairs, {}, &Pair::predicted);
  const auto best = std::ranges::min_element(pairs, {}, &Pair::measured);
  return picked->measured / best->measured - 1;
}

std::optional<double> mean_by_rows(std::span<const Weighted> groups) {
  double sum = 0;
  std::size_t rows = 0;
  for (const Weighted& group : groups) {
    sum += group.value * static_cast<double>(group.rows);
    rows += group.rows;
  }
  if (rows == 0) return std::nullopt;
  return sum / static_cast<double>(rows);
}

}  // namespace meshwright

#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace meshwright {

// A measured and a predicted amount, of which both are positive.
struct Pair {
  double measured = 0, predicted = 0;
};

// Relative to what was measured, so 0.1 is predicted 10 % too much.
double error_of(const Pair& pair);

struct ErrorSummary {
  double mean = 0;    // of the errors' absolute values
  double median = 0;  // of the same; of an even number the mean of the two in the middle
  double bias = 0;    // mean of the errors with their sign
  double worst = 0;   // the error with the largest absolute value, with its sign
};
// None for no pairs.
std::optional<ErrorSummary> summarize_errors(std::span<const Pair> pairs);

// Spearman's rank correlation: Pearson's of the ranks, equal values share the mean of theirs. None
// for fewer than two pairs, or where all of a side are equal.
std::optional<double> spearman(std::span<const Pair> pairs);

// How much longer than the best measured time is that of the pair with the best predicted one; of
// equal predictions the first counts. None for fewer than two pairs.
std::optional<double> regret(std::span<const Pair> pairs);

// A mean of what groups have, each counted as often as it has rows. None without rows.
struct Weighted {
  double value = 0;
  std::size_t rows = 0;
};
std::optional<double> mean_by_rows(std::span<const Weighted> groups);

}  // namespace meshwright

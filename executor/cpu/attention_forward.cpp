#include <limits>

#include "executor/cpu/attention_tile.h"
#include "executor/cpu/kernels.h"

namespace meshwright {
namespace {

// A tile of queries of one head: sums over the keys seen so far, relative to the largest score.
template <class Real>
struct QueryTile {
  std::vector<Real> scores = std::vector<Real>(kTile * kTile);
  std::vector<Real> largest = std::vector<Real>(kTile);
  std::vector<Real> sum = std::vector<Real>(kTile);
  std::vector<Real> result;  // [kTile, size of v]
  std::vector<Real> factors = std::vector<Real>(kTile);

  explicit QueryTile(std::int64_t size) : result(static_cast<std::size_t>(kTile * size)) {}

  void start() {
    std::ranges::fill(largest, -std::numeric_limits<Real>::infinity());
    std::ranges::fill(sum, Real(0));
    std::ranges::fill(result, Real(0));
  }
};

// Turns a row of scores into exponentials relative to the new largest one, and what was summed
// before into the same measure. Scores outside `seen` become 0.
template <class Real>
void take_row(QueryTile<Real>& tile, std::int64_t i, KeyRange seen, std::int64_t keys,
              std::int64_t size) {
  Real* row = &tile.scores[static_cast<std::size_t>(i * kTile)];
  std::fill(row, row + seen.first, Real(0));
  std::fill(row + seen.end, row + keys, Real(0));
  if (seen.first == seen.end) return;
  const auto at = static_cast<std::size_t>(i);
  const Real top = std::max(tile.largest[at], *std::max_element(row + seen.first, row + seen.end));
  const Real shrink = std::exp(tile.largest[at] - top);
  Real sum = 0;
  for (std::int64_t j = seen.first; j < seen.end; ++j) {
    row[j] = std::exp(row[j] - top);
    sum += row[j];
  }
  tile.sum[at] = tile.sum[at] * shrink + sum;
  tile.largest[at] = top;
  Real* result = &tile.result[static_cast<std::size_t>(i * size)];
  for (std::int64_t c = 0; c < size; ++c) result[c] *= shrink;
}

template <class Real>
class ForwardPass {
 public:
  explicit ForwardPass(const KernelCall& call)
      : places_(call),
        q_(call, 0),
        k_(call, 1),
        v_(call, 2),
        y_(call, 3),
        lse_(call, 4),
        tile_(v_.size()) {}

  void run() {
    for (std::int64_t b = 0; b < q_.batch(); ++b) {
      for (std::int64_t h = 0; h < q_.heads(); ++h) {
        for (std::int64_t i = 0; i < q_.sequence(); i += kTile) run_queries(b, h, i);
      }
    }
  }

 private:
  void run_queries(std::int64_t b, std::int64_t h, std::int64_t first) {
    const std::int64_t queries = std::min(kTile, q_.sequence() - first);
    const std::int64_t keys = places_.seen(first + queries - 1, k_.sequence());
    tile_.start();
    const std::int64_t start = places_.first_seen(first, keys) / kTile * kTile;
    for (std::int64_t j = start; j < keys; j += kTile) {
      add_keys(b, h, first, queries, j, std::min(kTile, keys - j));
    }
    for (std::int64_t i = 0; i < queries; ++i) store_row(b, h, first, i);
  }

  void add_keys(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t queries,
                std::int64_t first_key, std::int64_t keys) {
    const std::int64_t kv = h / (q_.heads() / k_.heads());
    const Matrix<Real> scores{tile_.scores.data(), queries, keys, kTile};
    multiply(static_cast<Real>(places_.attributes().scale), q_.rows(b, h, first, queries),
             k_.rows(b, kv, first_key, keys).flipped(), Real(0), scores);
    for (std::int64_t i = 0; i < queries; ++i) {
      const KeyRange seen = places_.seen(first + i, k_.sequence(), first_key, keys);
      places_.add_bias(h, first + i, first_key, seen, scores.data + i * kTile);
      take_row(tile_, i, seen, keys, v_.size());
      if (places_.attributes().dropout > 0) drop_row(b, h, first, i, first_key, seen.end);
    }
    multiply(Real(1), Matrix<const Real>{scores.data, queries, keys, kTile},
             v_.rows(b, kv, first_key, keys), Real(1),
             Matrix<Real>{tile_.result.data(), queries, v_.size(), v_.size()});
  }

  void drop_row(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t i,
                std::int64_t first_key, std::int64_t seen) {
    places_.dropout(b, h, first + i, first_key, seen, tile_.factors.data());
    Real* row = &tile_.scores[static_cast<std::size_t>(i * kTile)];
    for (std::int64_t j = 0; j < seen; ++j) row[j] *= tile_.factors[static_cast<std::size_t>(j)];
  }

  void store_row(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    const Real* result = &tile_.result[at * static_cast<std::size_t>(v_.size())];
    Real* y = y_.row(b, h, first + i);
    // A query that sees no key has no scores to share out.
    const Real factor = tile_.sum[at] > 0 ? 1 / tile_.sum[at] : Real(0);
    for (std::int64_t c = 0; c < v_.size(); ++c) y[c] = result[c] * factor;
    lse_.at(b, h, first + i) = tile_.largest[at] + std::log(tile_.sum[at]);
  }

  AttentionPlaces places_;
  Heads<const Real> q_, k_, v_;
  Heads<Real> y_;
  LogSums<Real> lse_;
  QueryTile<Real> tile_;
};

}  // namespace

template <class Real>
void attention_forward(const KernelCall& call) {
  ForwardPass<Real>(call).run();
}

template void attention_forward<float>(const KernelCall&);
template void attention_forward<double>(const KernelCall&);

}  // namespace meshwright

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
      : merges_(call.kernel.accumulate),
        places_(call),
        q_(call, 0),
        k_(call, 1),
        v_(call, 2),
        y_(call, 3),
        lse_(call, 4),
        tile_(v_.size()) {}

  void run() {
    for (std::int64_t b = 0; b < q_.batch(); ++b) {
      for (std::int64_t h = 0; h < q_.heads(); ++h) {
        for (const SequencePiece& piece : places_.queries()) {
          const std::int64_t end = piece.first + piece.size;
          for (std::int64_t i = piece.first; i < end; i += kTile) {
            run_queries({b, h, i, std::min(kTile, end - i), 0, 0, &piece});
          }
        }
      }
    }
  }

 private:
  void run_queries(const ScoreTile& queries) {
    tile_.start();
    if (merges_) {
      for (std::int64_t i = 0; i < queries.queries; ++i) load_row(queries, i);
    }
    places_.for_each_tile(queries, [&](const ScoreTile& tile) { add_keys(tile); });
    for (std::int64_t i = 0; i < queries.queries; ++i) store_row(queries, i);
  }

  void add_keys(const ScoreTile& tile) {
    const std::int64_t kv = tile.head / (q_.heads() / k_.heads());
    const Matrix<Real> scores{tile_.scores.data(), tile.queries, tile.keys, kTile};
    multiply(static_cast<Real>(places_.attributes().scale),
             q_.rows(tile.batch, tile.head, tile.first, tile.queries),
             k_.rows(tile.batch, kv, tile.first_key, tile.keys).flipped(), Real(0), scores);
    for (std::int64_t i = 0; i < tile.queries; ++i) {
      const KeyRange seen = places_.seen(tile, i);
      places_.add_bias(tile, i, seen, scores.data + i * kTile);
      take_row(tile_, i, seen, tile.keys, v_.size());
      if (places_.attributes().dropout > 0) drop_row(tile, i, seen.end);
    }
    multiply(Real(1), Matrix<const Real>{scores.data, tile.queries, tile.keys, kTile},
             v_.rows(tile.batch, kv, tile.first_key, tile.keys), Real(1),
             Matrix<Real>{tile_.result.data(), tile.queries, v_.size(), v_.size()});
  }

  void drop_row(const ScoreTile& tile, std::int64_t i, std::int64_t seen) {
    places_.dropout(tile, i, seen, tile_.factors.data());
    Real* row = &tile_.scores[static_cast<std::size_t>(i * kTile)];
    for (std::int64_t j = 0; j < seen; ++j) row[j] *= tile_.factors[static_cast<std::size_t>(j)];
  }

  // What is there stands for keys whose exponentials add up to exp(lse): relative to lse, to 1.
  void load_row(const ScoreTile& queries, std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    const Real log_sum = lse_.at(queries.batch, queries.head, queries.first + i);
    if (log_sum == -std::numeric_limits<Real>::infinity()) return;  // of no keys at all
    tile_.largest[at] = log_sum;
    tile_.sum[at] = 1;
    std::copy_n(y_.row(queries.batch, queries.head, queries.first + i), v_.size(),
                &tile_.result[at * static_cast<std::size_t>(v_.size())]);
  }

  void store_row(const ScoreTile& queries, std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    const Real* result = &tile_.result[at * static_cast<std::size_t>(v_.size())];
    Real* y = y_.row(queries.batch, queries.head, queries.first + i);
    // A query that sees no key has no scores to share out.
    const Real factor = tile_.sum[at] > 0 ? 1 / tile_.sum[at] : Real(0);
    for (std::int64_t c = 0; c < v_.size(); ++c) y[c] = result[c] * factor;
    lse_.at(queries.batch, queries.head, queries.first + i) =
        tile_.largest[at] + std::log(tile_.sum[at]);
  }

  const bool merges_;
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

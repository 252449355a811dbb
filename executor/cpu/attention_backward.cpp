#include "executor/cpu/attention_tile.h"
#include "executor/cpu/kernels.h"
#include "executor/math.h"

namespace meshwright {
namespace {

template <class Real>
class BackwardPass {
 public:
  explicit BackwardPass(const KernelCall& call)
      : accumulate_(call.kernel.accumulate),
        places_(call),
        q_(call, 0),
        k_(call, 1),
        v_(call, 2),
        y_(call, 3),
        lse_(call, 4),
        dy_(call, 5),
        dq_(call, 6),
        dk_(call, 7),
        dv_(call, 8) {}

  void run() {
    if (!accumulate_) {
      dq_.fill_zero();
      dk_.fill_zero();
      dv_.fill_zero();
    }
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
    for (std::int64_t i = 0; i < queries.queries; ++i) {
      const Real* y = y_.row(queries.batch, queries.head, queries.first + i);
      const Real* dy = dy_.row(queries.batch, queries.head, queries.first + i);
      shared_[static_cast<std::size_t>(i)] =
          sum_of<Real>(v_.size(), [=](std::int64_t c) { return y[c] * dy[c]; });
    }
    places_.for_each_tile(queries, [&](const ScoreTile& tile) { add_tile(tile); });
  }

  // Scores again from q and k, then with P the softmax, D dropout's factors and s = sum(y * dy):
  // dv += (P D)^T dy, dS = P * (D * (dy v^T) - s), dq += scale * dS k, dk += scale * dS^T q
  // (Dao et al. 2022, algorithm 4).
  void add_tile(const ScoreTile& tile) {
    const std::int64_t b = tile.batch, h = tile.head, queries = tile.queries, keys = tile.keys;
    const std::int64_t kv = h / (q_.heads() / k_.heads());
    const auto scale = static_cast<Real>(places_.attributes().scale);
    const auto q = q_.rows(b, h, tile.first, queries);
    const auto k = k_.rows(b, kv, tile.first_key, keys);
    const auto dy = dy_.rows(b, h, tile.first, queries);
    multiply(scale, q, k.flipped(), Real(0), Matrix<Real>{share_.data(), queries, keys, kTile});
    multiply(Real(1), dy, v_.rows(b, kv, tile.first_key, keys).flipped(), Real(0),
             Matrix<Real>{slope_.data(), queries, keys, kTile});
    for (std::int64_t i = 0; i < queries; ++i) take_row(tile, i);
    const Matrix<const Real> share{share_.data(), queries, keys, kTile};
    const Matrix<const Real> slope{slope_.data(), queries, keys, kTile};
    multiply(Real(1), share.flipped(), dy, Real(1), dv_.rows(b, kv, tile.first_key, keys));
    multiply(scale, slope, k, Real(1), dq_.rows(b, h, tile.first, queries));
    multiply(scale, slope.flipped(), q, Real(1), dk_.rows(b, kv, tile.first_key, keys));
  }

  // Scores become shares after dropout, dy v^T becomes the gradient of the scores.
  void take_row(const ScoreTile& tile, std::int64_t i) {
    const KeyRange seen = places_.seen(tile, i);
    Real* share = &share_[static_cast<std::size_t>(i * kTile)];
    Real* slope = &slope_[static_cast<std::size_t>(i * kTile)];
    for (Real* row : {share, slope}) {
      std::fill(row, row + seen.first, Real(0));
      std::fill(row + seen.end, row + tile.keys, Real(0));
    }
    places_.add_bias(tile, i, seen, share);
    if (places_.attributes().dropout > 0) places_.dropout(tile, i, seen.end, factors_.data());
    const Real log_sum = lse_.at(tile.batch, tile.head, tile.first + i);
    const Real shared = shared_[static_cast<std::size_t>(i)];
    for (std::int64_t j = seen.first; j < seen.end; ++j) {
      const Real p = std::exp(share[j] - log_sum);
      const Real factor = factors_[static_cast<std::size_t>(j)];
      slope[j] = p * (factor * slope[j] - shared);
      share[j] = p * factor;
    }
  }

  const bool accumulate_;
  AttentionPlaces places_;
  Heads<const Real> q_, k_, v_, y_;
  LogSums<const Real> lse_;
  Heads<const Real> dy_;
  Heads<Real> dq_, dk_, dv_;
  std::vector<Real> share_ = std::vector<Real>(kTile * kTile);
  std::vector<Real> slope_ = std::vector<Real>(kTile * kTile);
  std::vector<Real> factors_ = std::vector<Real>(kTile, Real(1));
  std::vector<Real> shared_ = std::vector<Real>(kTile);  // by query, s above
};

}  // namespace

template <class Real>
void attention_input_gradient(const KernelCall& call) {
  BackwardPass<Real>(call).run();
}

template void attention_input_gradient<float>(const KernelCall&);
template void attention_input_gradient<double>(const KernelCall&);

}  // namespace meshwright

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "executor/cpu/blas.h"
#include "executor/kernel_call.h"
#include "executor/math.h"
#include "executor/random.h"

namespace meshwright {

// Scores exist for this many queries and keys at a time.
inline constexpr std::int64_t kTile = 64;

// One of q, k, v, y or its gradient: [batch, sequence, heads, size].
template <class Real>
class Heads {
 public:
  Heads(const KernelCall& call, std::size_t i) : o_(call.operand(i)), data_(call.data<Real>(i)) {
    assert(o_.sizes.size() == 4 && (o_.strides[3] == 1 || o_.sizes[3] == 1));
  }
  std::int64_t batch() const { return o_.sizes[0]; }
  std::int64_t sequence() const { return o_.sizes[1]; }
  std::int64_t heads() const { return o_.sizes[2]; }
  std::int64_t size() const { return o_.sizes[3]; }
  Real* row(std::int64_t batch, std::int64_t head, std::int64_t place) const {
    return data_ + batch * o_.strides[0] + place * o_.strides[1] + head * o_.strides[2];
  }
  // `count` rows of one head from `place` on.
  Matrix<Real> rows(std::int64_t batch, std::int64_t head, std::int64_t place,
                    std::int64_t count) const {
    return {row(batch, head, place), count, size(), o_.strides[1]};
  }
  void fill_zero() const {
    for (std::int64_t b = 0; b < batch(); ++b) {
      for (std::int64_t s = 0; s < sequence(); ++s) {
        for (std::int64_t h = 0; h < heads(); ++h) std::fill_n(row(b, h, s), size(), Real(0));
      }
    }
  }

 private:
  const Operand& o_;
  Real* data_;
};

// lse [batch, heads, sequence].
template <class Real>
class LogSums {
 public:
  LogSums(const KernelCall& call, std::size_t i) : o_(call.operand(i)), data_(call.data<Real>(i)) {}
  Real& at(std::int64_t batch, std::int64_t head, std::int64_t place) const {
    return data_[batch * o_.strides[0] + head * o_.strides[1] + place * o_.strides[2]];
  }

 private:
  const Operand& o_;
  Real* data_;
};

struct KeyRange {
  std::int64_t first = 0, end = 0;
};

// Queries or keys of the device whose places in the whole sequence follow each other.
struct SequencePiece {
  std::int64_t first = 0;  // of the device's own
  std::int64_t size = 0;
  std::int64_t shift = 0;  // from a device's own place to the one in the whole sequence
};

inline std::vector<SequencePiece> pieces_of(const DimPlace& place) {
  std::vector<SequencePiece> pieces;
  std::int64_t first = 0;
  for (const ShardRange& range : place.ranges) {
    pieces.push_back({first, range.size, range.start - first});
    first += range.size;
  }
  return pieces;
}

// Queries of one head and keys that they may see, of one piece each.
struct ScoreTile {
  std::int64_t batch = 0, head = 0;
  std::int64_t first = 0, queries = 0;
  std::int64_t first_key = 0, keys = 0;
  const SequencePiece* query_piece = nullptr;
  const SequencePiece* key_piece = nullptr;

  // The i-th query, counted as the keys of the piece are.
  std::int64_t self(std::int64_t i) const {
    return first + i + query_piece->shift - key_piece->shift;
  }
};

// Which queries see which keys, what ALiBi adds to their scores and what dropout does to them: by
// their places in the whole tensors.
class AttentionPlaces {
 public:
  explicit AttentionPlaces(const KernelCall& call)
      : attributes_(call.attributes<AttentionAttributes>()),
        key_(random_key(call.settings.seed, call.kernel.name, call.settings.step)),
        batch_(call.batch_row),
        place_(call.kernel.place) {
    assert(place_.size() == 4 && (attributes_.causal || !attributes_.window));
    assert(place_[1].ranges.size() == 1);
    assert(size_of(place_[2].ranges) == call.operand(0).sizes[1]);
    assert(size_of(place_[3].ranges) == call.operand(1).sizes[1]);
    queries_ = pieces_of(place_[2]);
    keys_ = pieces_of(place_[3]);
  }
  const AttentionAttributes& attributes() const { return attributes_; }
  const std::vector<SequencePiece>& queries() const { return queries_; }

  // Calls visit(tile) for the tiles of keys that `queries` queries of a piece from `first` on see.
  template <class Visit>
  void for_each_tile(ScoreTile tile, Visit visit) const {
    for (const SequencePiece& piece : keys_) {
      tile.key_piece = &piece;
      const std::int64_t end = seen(tile.self(tile.queries - 1), piece).end;
      const std::int64_t start = seen(tile.self(0), piece).first - piece.first;
      for (std::int64_t j = piece.first + start / kTile * kTile; j < end; j += kTile) {
        tile.first_key = j;
        tile.keys = std::min(kTile, end - j);
        visit(tile);
      }
    }
  }
  // Which keys of a tile its i-th query sees, counted from the first.
  KeyRange seen(const ScoreTile& tile, std::int64_t i) const {
    const auto inside = [&](std::int64_t key) {
      return std::clamp<std::int64_t>(key - tile.first_key, 0, tile.keys);
    };
    const KeyRange all = seen(tile.self(i), *tile.key_piece);
    const std::int64_t end = inside(all.end);
    return {std::min(inside(all.first), end), end};
  }
  // Adds ALiBi's bias to the scores of the tile's i-th query.
  template <class Real>
  void add_bias(const ScoreTile& tile, std::int64_t i, KeyRange range, Real* scores) const {
    if (!attributes_.alibi) return;
    const double slope = alibi_slope(place_[1].ranges[0].start + tile.head, place_[1].size);
    for (std::int64_t j = range.first; j < range.end; ++j) {
      scores[j] +=
          static_cast<Real>(slope * static_cast<double>(tile.first_key + j - tile.self(i)));
    }
  }
  // The factors of the first `count` keys of a tile for its i-th query.
  template <class Real>
  void dropout(const ScoreTile& tile, std::int64_t i, std::int64_t count, Real* factors) const {
    const std::int64_t head = place_[1].ranges[0].start + tile.head;
    const std::int64_t row = ((batch_ + tile.batch) * place_[1].size + head) * place_[2].size +
                             tile.first + i + tile.query_piece->shift;
    const auto first =
        static_cast<std::uint64_t>(row * place_[3].size + tile.first_key + tile.key_piece->shift);
    for (std::int64_t j = 0; j < count; ++j) {
      factors[j] = static_cast<Real>(
          dropout_factor(key_, first + static_cast<std::uint64_t>(j), attributes_.dropout));
    }
  }

 private:
  // The keys of a piece that a query sees: under a mask up to itself, with a window as many of
  // these as it says.
  KeyRange seen(std::int64_t self, const SequencePiece& keys) const {
    const std::int64_t end = keys.first + keys.size;
    KeyRange range{keys.first, end};
    if (attributes_.causal) range.end = std::clamp(self + 1, keys.first, end);
    if (attributes_.window) {
      range.first = std::clamp(self - *attributes_.window + 1, keys.first, end);
    }
    return range;
  }

  const AttentionAttributes& attributes_;
  RandomKey key_;
  std::int64_t batch_;
  const std::vector<DimPlace>& place_;
  std::vector<SequencePiece> queries_, keys_;
};

}  // namespace meshwright

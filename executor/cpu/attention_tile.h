#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "executor/cpu/blas.h"
#include "executor/cpu/kernel_call.h"
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
  }
  const AttentionAttributes& attributes() const { return attributes_; }

  // How many of the keys from 0 on a query sees.
  std::int64_t seen(std::int64_t query, std::int64_t keys) const {
    if (!attributes_.causal) return keys;
    const std::int64_t last = place_[2].start + query - place_[3].start;
    return std::clamp<std::int64_t>(last + 1, 0, keys);
  }
  // The first key a query sees: itself and those before it are as many as the window says.
  std::int64_t first_seen(std::int64_t query, std::int64_t keys) const {
    if (!attributes_.window) return 0;
    const std::int64_t self = place_[2].start + query - place_[3].start;
    return std::clamp<std::int64_t>(self - *attributes_.window + 1, 0, keys);
  }
  // What a query sees of `count` keys from first_key on, counted from there.
  KeyRange seen(std::int64_t query, std::int64_t keys, std::int64_t first_key,
                std::int64_t count) const {
    const auto inside = [&](std::int64_t key) {
      return std::clamp<std::int64_t>(key - first_key, 0, count);
    };
    const std::int64_t end = inside(seen(query, keys));
    return {std::min(inside(first_seen(query, keys)), end), end};
  }
  // Adds ALiBi's bias to scores[j] of keys first_key + j.
  template <class Real>
  void add_bias(std::int64_t head, std::int64_t query, std::int64_t first_key, KeyRange range,
                Real* scores) const {
    if (!attributes_.alibi) return;
    const double slope = alibi_slope(place_[1].start + head, place_[1].size);
    const std::int64_t self = place_[2].start + query - place_[3].start;
    for (std::int64_t j = range.first; j < range.end; ++j) {
      scores[j] += static_cast<Real>(slope * static_cast<double>(first_key + j - self));
    }
  }
  // factors[j] for keys first_key + j.
  template <class Real>
  void dropout(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t first_key,
               std::int64_t count, Real* factors) const {
    const std::int64_t row =
        ((batch_ + batch) * place_[1].size + place_[1].start + head) * place_[2].size +
        place_[2].start + query;
    const auto first =
        static_cast<std::uint64_t>(row * place_[3].size + place_[3].start + first_key);
    for (std::int64_t j = 0; j < count; ++j) {
      factors[j] = static_cast<Real>(
          dropout_factor(key_, first + static_cast<std::uint64_t>(j), attributes_.dropout));
    }
  }

 private:
  const AttentionAttributes& attributes_;
  RandomKey key_;
  std::int64_t batch_;
  const std::vector<GlobalExtent>& place_;
};

}  // namespace meshwright

#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "costmodel/kernel/shard_range.h"
#include "executor/math.h"

namespace meshwright {

inline double frequency_of(const RopeAttributes& rope, std::int64_t pair) {
  const double frequency = rope_frequency(pair, rope.theta, rope.rotated);
  const auto positions = static_cast<double>(rope.original_positions);
  if (rope.scaling == "linear") return frequency / rope.factor;
  if (rope.scaling == "llama3") {
    return llama3_frequency(frequency, rope.factor, rope.low_factor, rope.high_factor, positions);
  }
  if (rope.scaling != "yarn") return frequency;
  return yarn_frequency(pair, rope.theta, rope.rotated, rope.factor, rope.low_factor,
                        rope.high_factor, positions);
}

inline RopePairs pairs_of(const RopeAttributes& rope) {
  return {rope.rotated, rope.first, rope.neighbours};
}

// Cosines and sines of the angles of every position and pair.
template <class Real>
struct RopeTable {
  std::vector<Real> cosines, sines;

  RopeTable(const RopeAttributes& rope, const std::vector<ShardRange>& positions) {
    for (const ShardRange& range : positions) {
      for (std::int64_t p = range.start; p < range.start + range.size; ++p) add(rope, p);
    }
  }

 private:
  void add(const RopeAttributes& rope, std::int64_t position) {
    for (std::int64_t i = 0; i < rope.rotated / 2; ++i) {
      const double angle = static_cast<double>(position) * frequency_of(rope, i);
      cosines.push_back(static_cast<Real>(rope.attention_factor * std::cos(angle)));
      sines.push_back(static_cast<Real>(rope.attention_factor * std::sin(angle)));
    }
  }
};

}  // namespace meshwright

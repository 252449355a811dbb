#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "costmodel/kernel/shard_range.h"
#include "executor/math.h"

namespace meshwright {

inline double frequency_of(const RopeAttributes& rope, std::int64_t pair) {
  const double frequency = rope_frequency(pair, rope.theta, rope.rotated);
  if (rope.scaling == "linear") return frequency / rope.factor;
  if (rope.scaling != "llama3") return frequency;
  return llama3_frequency(frequency, rope.factor, rope.low_factor, rope.high_factor,
                          static_cast<double>(rope.original_positions));
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
      cosines.push_back(static_cast<Real>(std::cos(angle)));
      sines.push_back(static_cast<Real>(std::sin(angle)));
    }
  }
};

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/program/timeline.h"

namespace meshwright {

// What a device holds over time, so that the most in any stretch is found without looking at all of
// it: a peak that is one task wide is what people look for.
class MemoryCurve {
 public:
  MemoryCurve() = default;
  // `samples` must outlive this.
  explicit MemoryCurve(std::span<const MemorySample> samples);

  bool empty() const { return samples_.empty(); }
  // What is held at the fullest moment from `from` to `to` (seconds), what was there before `from`
  // included.
  const MemorySample& fullest(double from, double to) const;
  // The same for stretches that follow each other: from each of `edges`, which rise, to the next.
  std::vector<const MemorySample*> fullest_along(std::span<const double> edges) const;
  const MemorySample& peak() const { return samples_[peak_]; }

 private:
  std::size_t count_until(double time, std::size_t known) const;
  std::size_t fuller(std::size_t a, std::size_t b) const { return totals_[b] > totals_[a] ? b : a; }
  std::size_t fullest_of(std::size_t first, std::size_t end) const;

  std::span<const MemorySample> samples_;
  // Of each sample, close together because many are looked at.
  std::vector<double> times_;
  std::vector<std::int64_t> totals_;
  // The fullest of each block of samples, then of each block of such blocks.
  std::vector<std::vector<std::uint32_t>> levels_;
  std::size_t peak_ = 0;
};

}  // namespace meshwright

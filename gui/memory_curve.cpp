#include "gui/memory_curve.h"

#include <algorithm>

namespace meshwright {
namespace {

constexpr std::size_t kBlock = 64;

}  // namespace

MemoryCurve::MemoryCurve(std::span<const MemorySample> samples) : samples_(samples) {
  for (const MemorySample& sample : samples) totals_.push_back(total(sample.bytes).value());
  for (std::size_t i = 0; i < totals_.size(); ++i) {
    if (i % kBlock == 0) blocks_.push_back(static_cast<std::uint32_t>(i));
    blocks_.back() = static_cast<std::uint32_t>(fuller(blocks_.back(), i));
    peak_ = fuller(peak_, i);
  }
}

const MemorySample& MemoryCurve::fullest(double from, double to) const {
  const auto after = [&](double time) {
    return static_cast<std::size_t>(
        std::ranges::upper_bound(samples_, Seconds(time), {}, &MemorySample::time) -
        samples_.begin());
  };
  const std::size_t first = std::max<std::size_t>(after(from), 1) - 1;
  const std::size_t end = std::max(after(to), first + 1);
  std::size_t best = first;
  for (std::size_t i = first; i < end;) {
    if (i % kBlock == 0 && i + kBlock <= end) {
      best = fuller(best, blocks_[i / kBlock]);
      i += kBlock;
    } else {
      best = fuller(best, i++);
    }
  }
  return samples_[best];
}

}  // namespace meshwright

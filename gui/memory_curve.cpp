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

// Samples up to a time, of which at least so many are known to be: the end is mostly near them.
std::size_t MemoryCurve::count_until(double time, std::size_t known) const {
  const auto is_before = [&](std::size_t i) { return samples_[i].time <= Seconds(time); };
  std::size_t step = 1;
  while (known + step <= samples_.size() && is_before(known + step - 1)) step *= 2;
  const auto first = samples_.begin() + static_cast<std::ptrdiff_t>(known + step / 2);
  const auto last =
      samples_.begin() + static_cast<std::ptrdiff_t>(std::min(known + step, samples_.size()));
  return static_cast<std::size_t>(
      std::ranges::upper_bound(first, last, Seconds(time), {}, &MemorySample::time) -
      samples_.begin());
}

const MemorySample& MemoryCurve::fullest(double from, double to) const {
  std::size_t place = 0;
  return fullest_after(place, from, to);
}

const MemorySample& MemoryCurve::fullest_after(std::size_t& place, double from, double to) const {
  place = count_until(from, place);
  const std::size_t first = std::max<std::size_t>(place, 1) - 1;
  const std::size_t end = std::max(count_until(to, place), first + 1);
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

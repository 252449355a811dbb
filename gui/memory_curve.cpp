#include "gui/memory_curve.h"

#include <algorithm>

namespace meshwright {
namespace {

constexpr std::size_t kInBlock = 8;

}  // namespace

MemoryCurve::MemoryCurve(std::span<const MemorySample> samples) : samples_(samples) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    times_.push_back(samples[i].time.value());
    totals_.push_back(total(samples[i].bytes).value());
    peak_ = fuller(peak_, i);
  }
  for (std::size_t count = samples.size(); count >= kInBlock; count /= kInBlock) {
    std::vector<std::uint32_t> level(count / kInBlock);
    for (std::size_t i = 0; i < level.size(); ++i) {
      const auto under = [&](std::size_t child) {
        const std::size_t place = i * kInBlock + child;
        return levels_.empty() ? place : levels_.back()[place];
      };
      std::size_t best = under(0);
      for (std::size_t child = 1; child < kInBlock; ++child) best = fuller(best, under(child));
      level[i] = static_cast<std::uint32_t>(best);
    }
    levels_.push_back(std::move(level));
  }
}

// Samples up to a time, of which at least so many are known to be: the end is mostly near them.
std::size_t MemoryCurve::count_until(double time, std::size_t known) const {
  std::size_t step = 1;
  while (known + step <= times_.size() && times_[known + step - 1] <= time) step *= 2;
  const auto first = times_.begin() + static_cast<std::ptrdiff_t>(known + step / 2);
  const auto last =
      times_.begin() + static_cast<std::ptrdiff_t>(std::min(known + step, times_.size()));
  return static_cast<std::size_t>(std::ranges::upper_bound(first, last, time) - times_.begin());
}

// The first of the fullest, by the largest blocks that are whole.
std::size_t MemoryCurve::fullest_of(std::size_t first, std::size_t end) const {
  std::size_t best = first;
  for (std::size_t i = first; i < end;) {
    std::size_t level = 0, size = 1;
    while (level < levels_.size() && i % (size * kInBlock) == 0 && i + size * kInBlock <= end) {
      ++level;
      size *= kInBlock;
    }
    best = fuller(best, level == 0 ? i : levels_[level - 1][i / size]);
    i += size;
  }
  return best;
}

const MemorySample& MemoryCurve::fullest(double from, double to) const {
  const double edges[] = {from, to};
  return *fullest_along(edges).front();
}

std::vector<const MemorySample*> MemoryCurve::fullest_along(std::span<const double> edges) const {
  std::vector<const MemorySample*> found;
  found.reserve(edges.size());
  std::size_t until = count_until(edges.front(), 0);
  for (std::size_t i = 1; i < edges.size(); ++i) {
    const std::size_t first = std::max<std::size_t>(until, 1) - 1;
    until = count_until(edges[i], until);
    found.push_back(&samples_[fullest_of(first, std::max(until, first + 1))]);
  }
  return found;
}

}  // namespace meshwright

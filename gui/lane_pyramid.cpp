#include "gui/lane_pyramid.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace meshwright {
namespace {

Hue seen_from_afar(Hue hue) { return hue == Hue::WeightGradient ? Hue::InputGradient : hue; }

// Adds up what bins are spent on.
class Mixture {
 public:
  void add(std::uint8_t hue, double amount) { amounts_[hue] += amount; }
  void clear() { amounts_.fill(0); }
  // Of a whole of `length`.
  LaneBin bin(double length) const {
    const auto most = std::ranges::max_element(amounts_);
    double all = 0;
    for (const double amount : amounts_) all += amount;
    if (all <= 0) return {};
    const double share = std::clamp(all / length, 0.0, 1.0);
    return {static_cast<std::uint8_t>(most - amounts_.begin()),
            static_cast<std::uint8_t>(std::max(1.0, std::round(share * 255)))};
  }

 private:
  std::array<double, kHues> amounts_{};
};

std::vector<LaneBin> finest(std::span<const TimedTask> tasks, std::size_t count, double length) {
  std::vector<LaneBin> bins(count);
  std::size_t at = 0;
  Mixture here;
  const auto close_until = [&](std::size_t next) {
    bins[at] = here.bin(length);
    here.clear();
    at = next;
  };
  for (const TimedTask& task : tasks) {
    const auto hue = static_cast<std::uint8_t>(seen_from_afar(task.hue));
    double from = static_cast<double>(task.start);
    const auto finish = static_cast<double>(task.finish);
    const auto first = std::min(static_cast<std::size_t>(from / length), count - 1);
    if (first != at) close_until(first);
    // What takes no time is seen as well.
    if (finish <= from) here.add(hue, length / 1024);
    while (from < finish) {
      const double end =
          at + 1 == count ? finish : std::min(finish, static_cast<double>(at + 1) * length);
      here.add(hue, end - from);
      from = end;
      if (from < finish) close_until(at + 1);
    }
  }
  close_until(at);
  return bins;
}

std::vector<LaneBin> coarser(const std::vector<LaneBin>& bins) {
  std::vector<LaneBin> result((bins.size() + 1) / 2);
  for (std::size_t i = 0; i < result.size(); ++i) {
    Mixture pair;
    for (std::size_t j = 2 * i; j < std::min(2 * i + 2, bins.size()); ++j) {
      pair.add(bins[j].hue, bins[j].cover);
    }
    result[i] = pair.bin(2 * 255);
  }
  return result;
}

LaneBin covered(std::uint8_t hue, double all, double share) {
  if (all <= 0) return {};
  return {hue, static_cast<std::uint8_t>(std::clamp(all * share + 0.5, 1.0, 255.0))};
}

// Of bins from one end to the other, both counted in bins from the first one's start.
LaneBin mix_few(std::span<const LaneBin> bins, double from, double to, double share) {
  std::array<double, 3> amounts{};
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const auto place = static_cast<double>(i);
    amounts[i] = bins[i].cover * std::max(0.0, std::min(to, place + 1) - std::max(from, place));
  }
  const double all = amounts[0] + amounts[1] + amounts[2];
  // Those of a kind count together at the first of them.
  for (std::size_t i = bins.size(); i-- > 1;) {
    for (std::size_t j = 0; j < i; ++j) {
      if (bins[j].hue != bins[i].hue) continue;
      amounts[j] += amounts[i];
      amounts[i] = 0;
      break;
    }
  }
  std::size_t most = 0;
  for (std::size_t i = 1; i < bins.size(); ++i) {
    if (amounts[i] > amounts[most]) most = i;
  }
  return covered(bins[most].hue, all, share);
}

LaneBin mix_many(std::span<const LaneBin> bins, double from, double to, double share) {
  std::array<double, kHues> amounts{};
  double all = 0;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const auto place = static_cast<double>(i);
    const double amount =
        bins[i].cover * std::max(0.0, std::min(to, place + 1) - std::max(from, place));
    amounts[bins[i].hue] += amount;
    all += amount;
  }
  const auto most = std::ranges::max_element(amounts);
  return covered(static_cast<std::uint8_t>(most - amounts.begin()), all, share);
}

}  // namespace

LanePyramid::LanePyramid(std::span<const TimedTask> tasks, std::int64_t end) {
  if (tasks.empty() || end <= 0) return;
  const std::size_t count = std::bit_ceil(tasks.size());
  first_length_ = static_cast<double>(end) / static_cast<double>(count);
  levels_.push_back(finest(tasks, count, first_length_));
  while (levels_.back().size() > 1) levels_.push_back(coarser(levels_.back()));
}

std::optional<std::size_t> LanePyramid::level_for(double length) const {
  if (levels_.empty() || length < first_length_) return std::nullopt;
  const double times = std::floor(std::log2(length / first_length_) + 1e-9);
  return std::min(static_cast<std::size_t>(times), levels_.size() - 1);
}

LaneBin LanePyramid::look(std::size_t level, double from, double to) const {
  LaneBin bin;
  look_along(level, from, to - from, {&bin, 1});
  return bin;
}

// Called for every pixel of every lane. A pixel is as long as one or two bins, so that it mostly
// has a part of three at most.
void LanePyramid::look_along(std::size_t level, double start, double length,
                             std::span<LaneBin> pixels) const {
  const std::vector<LaneBin>& bins = levels_[level];
  const double scale = 1 / bin_length(level), step = length * scale, share = 1 / step;
  const auto last = static_cast<double>(bins.size());
  for (std::size_t x = 0; x < pixels.size(); ++x) {
    const double from = start * scale + static_cast<double>(x) * step;
    const double left = std::max(0.0, from), right = std::min(from + step, last);
    if (!(left < right)) {
      pixels[x] = {};
      continue;
    }
    const auto first = static_cast<std::size_t>(left);
    const auto end = std::min(static_cast<std::size_t>(right) + 1, bins.size());
    const std::span<const LaneBin> under(bins.data() + first, end - first);
    const double place = static_cast<double>(first);
    pixels[x] = under.size() <= 3 ? mix_few(under, left - place, right - place, share)
                                  : mix_many(under, left - place, right - place, share);
  }
}

std::size_t LanePyramid::bytes() const {
  std::size_t bytes = 0;
  for (const auto& level : levels_) bytes += level.size() * sizeof(LaneBin);
  return bytes;
}

}  // namespace meshwright

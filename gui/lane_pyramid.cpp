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

// Called for every pixel of every lane: a pixel spans few bins, mostly of one kind.
LaneBin LanePyramid::look(std::size_t level, double from, double to) const {
  const std::vector<LaneBin>& bins = levels_[level];
  const double scale = 1 / bin_length(level);
  const double left = std::max(0.0, from * scale);
  const double right = std::min(to * scale, static_cast<double>(bins.size()));
  if (!(left < right)) return {};
  const auto first = static_cast<std::size_t>(left);
  const auto end = std::min(static_cast<std::size_t>(right) + 1, bins.size());
  double all = 0, most = 0;
  std::uint8_t hue = bins[first].hue;
  std::array<double, kHues> amounts{};
  for (std::size_t i = first; i < end; ++i) {
    const auto place = static_cast<double>(i);
    const double part = std::min(right, place + 1) - std::max(left, place);
    const double amount = bins[i].cover * std::max(part, 0.0);
    if (amount <= 0) continue;
    all += amount;
    amounts[bins[i].hue] += amount;
    if (amounts[bins[i].hue] <= most) continue;
    most = amounts[bins[i].hue];
    hue = bins[i].hue;
  }
  if (all <= 0) return {};
  const double cover = all / ((to - from) * scale);
  return {hue, static_cast<std::uint8_t>(std::clamp(cover + 0.5, 1.0, 255.0))};
}

std::size_t LanePyramid::bytes() const {
  std::size_t bytes = 0;
  for (const auto& level : levels_) bytes += level.size() * sizeof(LaneBin);
  return bytes;
}

}  // namespace meshwright

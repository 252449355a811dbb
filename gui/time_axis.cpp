#include "gui/time_axis.h"

#include <algorithm>
#include <cmath>

namespace meshwright {
namespace {

constexpr std::int64_t kShortest = 20;  // nanoseconds

}  // namespace

std::int64_t TimeAxis::time_at(double pixel, double width) const {
  return start + std::llround(pixel / std::max(width, 1.0) * static_cast<double>(length));
}

TimeAxis within(const TimeAxis& axis, std::int64_t end) {
  const std::int64_t most = std::max(end, kShortest);
  TimeAxis result = axis;
  result.length = std::clamp(axis.length, std::min(kShortest, most), most);
  result.start = std::clamp<std::int64_t>(axis.start, 0, most - result.length);
  return result;
}

TimeAxis zoomed(const TimeAxis& axis, double factor, double at_share, std::int64_t end) {
  const auto length = static_cast<double>(axis.length);
  const double fixed = static_cast<double>(axis.start) + at_share * length;
  const double longer = std::clamp(length * factor, 1.0, 4e18);
  const double start = fixed - at_share * longer;
  return within({std::llround(std::clamp(start, -4e18, 4e18)), std::llround(longer)}, end);
}

TimeAxis moved(const TimeAxis& axis, double by_share, std::int64_t end) {
  const double by = by_share * static_cast<double>(axis.length);
  return within({axis.start + std::llround(by), axis.length}, end);
}

}  // namespace meshwright

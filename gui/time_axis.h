#pragma once

#include <cstdint>

namespace meshwright {

// The stretch of time that is looked at. Nanoseconds are whole; only differences from the start
// become floating point, so that nothing is lost late in a long step.
struct TimeAxis {
  std::int64_t start = 0;
  std::int64_t length = 1;  // at least 1
  friend bool operator==(const TimeAxis&, const TimeAxis&) = default;

  double pixel_of(std::int64_t time, double width) const {
    return static_cast<double>(time - start) / static_cast<double>(length) * width;
  }
  std::int64_t time_at(double pixel, double width) const;
};

// Larger or smaller by a factor around the time at a share of the width, never beyond 0 to `end`.
TimeAxis zoomed(const TimeAxis& axis, double factor, double at_share, std::int64_t end);
// Moved by a share of its length, not beyond 0 to `end`.
TimeAxis moved(const TimeAxis& axis, double by_share, std::int64_t end);
// The same stretch as far as it is within 0 to `end`, at least a few nanoseconds.
TimeAxis within(const TimeAxis& axis, std::int64_t end);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gui/hue.h"

namespace meshwright {

// A task of a lane: 24 bytes, since there may be millions.
struct TimedTask {
  std::int64_t start = 0, finish = 0;  // nanoseconds
  std::uint32_t task = 0;              // of the program
  std::int16_t microbatch = -1;        // that stands in its bar; -1 is none, to keep it small
  Hue hue = Hue::Forward;
};

// What most of a stretch of time is spent on, and how much of it.
struct LaneBin {
  std::uint8_t hue = 0;
  std::uint8_t cover = 0;  // of 255; anything at all is at least 1
  friend bool operator==(const LaneBin&, const LaneBin&) = default;
};

// A lane at ever coarser levels: bins of equal time, each level's twice as long as the one before.
// Drawing costs by the pixels, not by the tasks. Kinds of backward are one here, and so are kinds
// of anything else that alternates too quickly to be seen.
class LanePyramid {
 public:
  LanePyramid() = default;
  // Of tasks in order that do not overlap, for a time from 0 to `end`.
  LanePyramid(std::span<const TimedTask> tasks, std::int64_t end);

  // The level whose bins are at most `length` long; none: its finest is longer, so that tasks
  // are drawn one by one.
  std::optional<std::size_t> level_for(double length) const;
  double bin_length(std::size_t level) const {
    return first_length_ * static_cast<double>(std::size_t{1} << level);
  }
  // What a stretch of time looks like at a level. Times outside are empty.
  LaneBin look(std::size_t level, double from, double to) const;
  // Many such stretches of the same length, one after the other.
  void look_along(std::size_t level, double start, double length, std::span<LaneBin> pixels) const;
  std::size_t bytes() const;

 private:
  double first_length_ = 1;
  std::vector<std::vector<LaneBin>> levels_;
};

}  // namespace meshwright

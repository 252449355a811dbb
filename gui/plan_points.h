#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gui/plan_rows.h"

namespace meshwright {

// Numbers from one end of a line of pixels to the other.
struct Scale {
  double from = 0, to = 1;     // values
  double first = 0, last = 1;  // pixels
  double pixel_of(double value) const {
    return to == from ? first : first + (value - from) / (to - from) * (last - first);
  }
  double value_at(double pixel) const {
    return last == first ? from : from + (pixel - first) / (last - first) * (to - from);
  }
};

// Plans by memory (GiB, to the right) and tokens per second (upwards).
struct PlanPoints {
  struct Point {
    double memory = 0, tokens = 0;
    std::uint32_t row = 0;
    Fate fate = Fate::Open;
    bool simulated = false;
  };
  std::vector<Point> points;  // of the rows that are shown, those that only have bounds first
  std::vector<Point> front;   // from least memory on
  double most_memory = 1, least_tokens = 0, most_tokens = 1;  // that are worth showing
};
// Rows of which no bound is known are left out. What was simulated decides what is worth showing.
PlanPoints points_of(const std::vector<PlanRow>& rows, const std::vector<std::uint32_t>& visible,
                     Bytes limit);

// The point nearest to a pixel, at most so far away; of equally near ones the last, which is drawn
// on top.
std::optional<std::uint32_t> nearest_row(const PlanPoints& points, const Scale& x, const Scale& y,
                                         double at_x, double at_y, double most);

}  // namespace meshwright

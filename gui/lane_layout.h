#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gui/timeline_lanes.h"

namespace meshwright {

// Where lanes stand, from the top in pixels: each device's name beside its first lane, lanes that
// compute higher than others.
struct LanePlace {
  std::size_t lane = 0;  // of TimelineLanes::lanes
  int top = 0, height = 0;
};
struct LaneLayout {
  std::vector<LanePlace> lanes;  // downwards
  std::vector<int> device_tops;  // of each device
  int height = 0;
};
// `size` is the height of a lane that computes. Devices of `folded` show that lane alone. Where
// lanes would be thinner than 3 pixels only those that compute are shown.
LaneLayout lay_out_lanes(const TimelineLanes& lanes, int size, const std::vector<bool>& folded);

// The lane at a height; none: between lanes.
std::optional<std::size_t> lane_at(const LaneLayout& layout, int y);

}  // namespace meshwright

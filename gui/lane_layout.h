#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gui/timeline_lanes.h"

namespace meshwright {

// What a person wants to see of devices, each by its index; what is not said is false.
struct LaneFolds {
  std::vector<bool> folded;    // only the lane that computes
  std::vector<bool> expanded;  // its equals below it
};

// Where lanes stand, from the top in pixels: each device's name beside its first lane, lanes that
// compute higher than others.
struct LanePlace {
  std::size_t lane = 0;  // of TimelineLanes::lanes
  int top = 0, height = 0;
  std::size_t member = 0;  // of the equal devices; 0: the first, which stands for all
};
struct LaneLayout {
  std::vector<LanePlace> lanes;  // downwards
  std::vector<int> device_tops;  // of each device
  int height = 0;
};
// More equal devices than these are not shown below each other: they are equal.
inline constexpr std::size_t kMostMembers = 64;

// `size` is the height of a lane that computes. Where lanes would be thinner than 3 pixels only
// those that compute are shown.
LaneLayout lay_out_lanes(const TimelineLanes& lanes, int size, const LaneFolds& folds);
// Only these lanes, by their names and in that order; of those that are not there, none.
LaneLayout lay_out_pinned(const TimelineLanes& lanes, int size,
                          const std::vector<std::string>& names);

// What stands beside a place: the device, with how many it is, or the lane.
std::string name_beside(const TimelineLanes& lanes, const LanePlace& place);

// The lane at a height; none: between lanes.
std::optional<std::size_t> lane_at(const LaneLayout& layout, int y);

}  // namespace meshwright

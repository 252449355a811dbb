#include "gui/lane_layout.h"

#include <algorithm>

namespace meshwright {
namespace {

constexpr int kBetweenDevices = 5;
constexpr int kThinnest = 3;

}  // namespace

LaneLayout lay_out_lanes(const TimelineLanes& lanes, int size, const std::vector<bool>& folded) {
  LaneLayout layout;
  const int small = size * 9 / 16;
  int y = 0;
  for (std::size_t d = 0; d < lanes.devices.size(); ++d) {
    const TimelineDevice& device = lanes.devices[d];
    layout.device_tops.push_back(y);
    const bool only_compute = small < kThinnest || (d < folded.size() && folded[d]);
    for (std::size_t i = 0; i < device.lane_count; ++i) {
      const std::size_t lane = device.first_lane + i;
      const bool computes = lanes.lanes[lane].computes;
      if (only_compute && !computes) continue;
      const int height = std::max(1, computes ? size : small);
      layout.lanes.push_back({lane, y, height});
      y += height + (size >= 6 ? 1 : 0);
    }
    y += size >= 6 ? kBetweenDevices : 0;
  }
  layout.height = y;
  return layout;
}

std::optional<std::size_t> lane_at(const LaneLayout& layout, int y) {
  const auto after = std::ranges::upper_bound(layout.lanes, y, {}, &LanePlace::top);
  if (after == layout.lanes.begin()) return std::nullopt;
  const LanePlace& place = *std::prev(after);
  if (y >= place.top + place.height) return std::nullopt;
  return place.lane;
}

}  // namespace meshwright

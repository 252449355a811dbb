#include "gui/lane_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace meshwright {
namespace {

constexpr int kBetweenDevices = 5;
constexpr int kThinnest = 3;

bool is_set(const std::vector<bool>& flags, std::size_t index) {
  return index < flags.size() && flags[index];
}

// What a group is for says more than that it is one.
std::string name_by_purpose(const TimelineLane& lane) {
  constexpr std::string_view kGroup = "group ";
  if (!lane.hue || !lane.name.starts_with(kGroup)) return lane.name;
  const std::string_view hue = to_text(*lane.hue);
  return fmt::format("{} {}", hue.substr(0, hue.find(' ')), lane.name.substr(kGroup.size()));
}

// Places below each other.
class LaneStack {
 public:
  LaneStack(const TimelineLanes& lanes, int size) : lanes_(lanes), size_(size) {}
  int small() const { return size_ * 9 / 16; }

  void begin_device() { layout_.device_tops.push_back(layout_.height); }
  void add(std::size_t lane, std::size_t member = 0) {
    const bool high = lanes_.lanes[lane].computes && member == 0;
    const int height = std::max(1, high ? size_ : small());
    layout_.lanes.push_back({lane, layout_.height, height, member});
    layout_.height += height + (size_ >= 6 ? 1 : 0);
  }
  void end_device() { layout_.height += size_ >= 6 ? kBetweenDevices : 0; }
  LaneLayout take() { return std::move(layout_); }

 private:
  const TimelineLanes& lanes_;
  int size_;
  LaneLayout layout_;
};

}  // namespace

LaneLayout lay_out_lanes(const TimelineLanes& lanes, int size, const LaneFolds& folds) {
  LaneStack stack(lanes, size);
  for (std::size_t d = 0; d < lanes.devices.size(); ++d) {
    const TimelineDevice& device = lanes.devices[d];
    stack.begin_device();
    const bool only_compute = stack.small() < kThinnest || is_set(folds.folded, d);
    for (std::size_t lane = device.first_lane; lane < device.first_lane + device.lane_count;
         ++lane) {
      if (!only_compute || lanes.lanes[lane].computes) stack.add(lane);
    }
    const bool computes = device.lane_count > 0 && lanes.lanes[device.first_lane].computes;
    if (is_set(folds.expanded, d) && computes) {
      const auto members = std::min(static_cast<std::size_t>(device.count), kMostMembers);
      for (std::size_t member = 1; member < members; ++member) {
        stack.add(device.first_lane, member);
      }
    }
    stack.end_device();
  }
  return stack.take();
}

LaneLayout lay_out_pinned(const TimelineLanes& lanes, int size,
                          const std::vector<std::string>& names) {
  LaneStack stack(lanes, size);
  for (const std::string& name : names) {
    for (std::size_t lane = 0; lane < lanes.lanes.size(); ++lane) {
      if (lane_name(lanes, lane) == name) stack.add(lane);
    }
  }
  return stack.take();
}

std::string name_beside(const TimelineLanes& lanes, const LanePlace& place) {
  const TimelineLane& lane = lanes.lanes[place.lane];
  const TimelineDevice& device = lanes.devices[lane.device];
  if (!lane.computes) return name_by_purpose(lane);
  if (place.member == 0) {
    return device.count > 1 ? fmt::format("{}  \u00d7{}", device.name, device.count) : device.name;
  }
  const auto shown = std::min(static_cast<std::size_t>(device.count), kMostMembers);
  if (place.member + 1 == shown && shown < static_cast<std::size_t>(device.count)) {
    return fmt::format("and {} more", static_cast<std::size_t>(device.count) - shown + 1);
  }
  return place.member < device.members.size()
             ? fmt::format("device {}", device.members[place.member])
             : "as " + device.name;
}

std::optional<std::size_t> lane_at(const LaneLayout& layout, int y) {
  const auto after = std::ranges::upper_bound(layout.lanes, y, {}, &LanePlace::top);
  if (after == layout.lanes.begin()) return std::nullopt;
  const LanePlace& place = *std::prev(after);
  if (y >= place.top + place.height) return std::nullopt;
  return place.lane;
}

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "costmodel/base/ids.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// Along an axis, of place `index` among a slot's devices; 0 where the slot does not have the axis.
std::int64_t coordinate_of(const Slot& slot, std::size_t index, std::string_view axis);

// A device's place in a plan: its slot and its coordinates on the slot's mesh.
class Placement {
 public:
  // The device must be one of the plan's.
  Placement(const Plan& plan, DeviceId device);

  DeviceId device() const { return device_; }
  std::size_t slot() const { return slot_; }
  std::int64_t coordinate(std::string_view axis) const;
  std::int64_t size(std::string_view axis) const;
  // Devices of the slot that differ from this one only along the axis, in its order.
  std::vector<DeviceId> group(std::string_view axis) const;
  // The device of another slot at the same coordinates.
  DeviceId peer(std::size_t slot) const;

 private:
  const Plan& plan_;
  DeviceId device_;
  std::size_t slot_ = 0;
  std::size_t index_ = 0;  // among the slot's devices
};

// Part `part` of `parts` of a length: the first ones get one more where it does not divide.
struct Share {
  std::int64_t start = 0, size = 0;
};
Share share_of(std::int64_t length, std::int64_t part, std::int64_t parts);

}  // namespace meshwright

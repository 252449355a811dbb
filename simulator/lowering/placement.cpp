#include "simulator/lowering/placement.h"

#include <algorithm>
#include <cassert>

namespace meshwright {
namespace {

// Distance between neighbours along an axis in the slot's list of devices.
std::size_t stride_of(const Slot& slot, std::string_view axis) {
  std::size_t stride = 1;
  for (auto entry = slot.axes.rbegin(); entry != slot.axes.rend(); ++entry) {
    if (entry->name == axis) return stride;
    stride *= static_cast<std::size_t>(entry->size);
  }
  return stride;
}

}  // namespace

std::int64_t coordinate_of(const Slot& slot, std::size_t index, std::string_view axis) {
  return static_cast<std::int64_t>(index / stride_of(slot, axis)) % axis_size(slot, axis);
}

Placement::Placement(const Plan& plan, DeviceId device) : plan_(plan), device_(device) {
  for (slot_ = 0; slot_ < plan.slots.size(); ++slot_) {
    const auto& devices = plan.slots[slot_].devices;
    const auto found = std::find(devices.begin(), devices.end(), device);
    if (found == devices.end()) continue;
    index_ = static_cast<std::size_t>(found - devices.begin());
    return;
  }
  assert(!"a device of the plan");
}

std::int64_t Placement::size(std::string_view axis) const {
  return axis_size(plan_.slots[slot_], axis);
}

std::int64_t Placement::coordinate(std::string_view axis) const {
  return coordinate_of(plan_.slots[slot_], index_, axis);
}

std::vector<DeviceId> Placement::group(std::string_view axis) const {
  const Slot& slot = plan_.slots[slot_];
  const std::size_t stride = stride_of(slot, axis);
  const std::size_t first = index_ - static_cast<std::size_t>(coordinate(axis)) * stride;
  std::vector<DeviceId> devices;
  for (std::int64_t i = 0; i < size(axis); ++i) {
    devices.push_back(slot.devices[first + static_cast<std::size_t>(i) * stride]);
  }
  return devices;
}

DeviceId Placement::peer(std::size_t slot) const { return plan_.slots[slot].devices[index_]; }

Share share_of(std::int64_t length, std::int64_t part, std::int64_t parts) {
  const std::int64_t least = length / parts, more = length % parts;
  return {part * least + std::min(part, more), least + (part < more ? 1 : 0)};
}

}  // namespace meshwright

#include "simulator/lowering/placement.h"

#include <cassert>

namespace meshwright {

Placement::Placement(const Plan& plan, DeviceId device) : plan_(plan) {
  for (slot_ = 0; slot_ < plan.slots.size(); ++slot_) {
    const auto position = mesh().find(device);
    if (!position) continue;
    position_ = *position;
    coordinates_ = mesh().coordinates_at(position_);
    return;
  }
  assert(!"a device of the plan");
}

std::int64_t Placement::index_along(const std::vector<AxisId>& axes) const {
  std::int64_t index = 0;
  for (const AxisId axis : axes) index = index * mesh().size(axis) + coordinates_[axis.index()];
  return index;
}

std::vector<DeviceId> Placement::group(const std::vector<AxisId>& axes) const {
  return mesh().group(device(), axes);
}

}  // namespace meshwright

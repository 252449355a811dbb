#pragma once

#include <cstdint>
#include <vector>

#include "simulator/plan/plan.h"

namespace meshwright {

// A device's place in a plan: its slot and its coordinates on the slot's mesh.
class Placement {
 public:
  // The device must be one of the plan's.
  Placement(const Plan& plan, DeviceId device);

  DeviceId device() const { return mesh().devices()[position_]; }
  std::size_t slot() const { return slot_; }
  const Mesh& mesh() const { return plan_.slots[slot_].mesh; }
  // Along every axis of the mesh.
  const std::vector<std::int64_t>& coordinates() const { return coordinates_; }
  // Index in the group along these axes, the first listed being the major one.
  std::int64_t index_along(const std::vector<AxisId>& axes) const;
  // Devices of the slot that differ from this one only along these axes.
  std::vector<DeviceId> group(const std::vector<AxisId>& axes) const;
  // The device of another slot at the same coordinates.
  DeviceId peer(std::size_t slot) const { return plan_.slots[slot].mesh.devices()[position_]; }

 private:
  const Plan& plan_;
  std::size_t slot_ = 0;
  std::size_t position_ = 0;  // among the slot's devices
  std::vector<std::int64_t> coordinates_;
};

}  // namespace meshwright

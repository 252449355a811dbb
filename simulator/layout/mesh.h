#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/ids.h"

namespace meshwright {

using AxisId = Id<struct AxisTag>;

struct MeshAxis {
  std::string name;
  std::int64_t size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

// Devices arranged along named axes, major to minor: along the last axis neighbours in the list
// of devices are neighbours in the mesh.
class Mesh {
 public:
  // Names and devices occur once; there are as many devices as the product of the sizes.
  Mesh(std::vector<MeshAxis> axes, std::vector<DeviceId> devices);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  const std::vector<DeviceId>& devices() const { return devices_; }
  const MeshAxis& axis(AxisId axis) const { return axes_[axis.index()]; }
  std::optional<AxisId> find(std::string_view name) const;

  std::int64_t size(AxisId axis) const { return axes_[axis.index()].size; }
  // How many devices a group along these axes has.
  std::int64_t size(const std::vector<AxisId>& axes) const;

  // None: devices can be arranged so. Otherwise why not, in words.
  static std::optional<std::string> fault_of(const std::vector<MeshAxis>& axes,
                                             const std::vector<DeviceId>& devices);

  bool contains(DeviceId device) const { return find(device).has_value(); }
  // Place in the list of devices.
  std::optional<std::size_t> find(DeviceId device) const;
  std::int64_t coordinate(DeviceId device, AxisId axis) const;
  // Along every axis, of the device at a position of the list.
  std::vector<std::int64_t> coordinates_at(std::size_t position) const;

  // The devices that differ from `device` only along `axes`, itself among them, ordered by their
  // coordinates along the axes as listed, the first listed being the major one.
  std::vector<DeviceId> group(DeviceId device, const std::vector<AxisId>& axes) const;
  // All such groups; every device is in one of them.
  std::vector<std::vector<DeviceId>> groups(const std::vector<AxisId>& axes) const;

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  // Of the device at a position of the list.
  std::int64_t coordinate_at(std::size_t position, AxisId axis) const;
  std::vector<DeviceId> group_at(std::size_t position, const std::vector<AxisId>& axes) const;

  std::vector<MeshAxis> axes_;
  std::vector<DeviceId> devices_;
  std::vector<std::int64_t> strides_;     // of the axes, in positions
  std::vector<std::uint32_t> by_device_;  // positions, ascending by device
};

}  // namespace meshwright

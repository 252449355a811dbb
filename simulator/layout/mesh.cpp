#include "simulator/layout/mesh.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace meshwright {

Mesh::Mesh(std::vector<MeshAxis> axes, std::vector<DeviceId> devices)
    : axes_(std::move(axes)), devices_(std::move(devices)), strides_(axes_.size(), 1) {
  std::int64_t stride = 1;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    assert(axes_[i].size >= 1);
    assert(find(axes_[i].name) == AxisId(i));
    strides_[i] = stride;
    stride *= axes_[i].size;
  }
  assert(static_cast<std::size_t>(stride) == devices_.size());
  for (std::size_t i = 0; i < devices_.size(); ++i) positions_.emplace(devices_[i], i);
  assert(positions_.size() == devices_.size());
}

std::optional<AxisId> Mesh::find(std::string_view name) const {
  const auto found = std::ranges::find(axes_, name, &MeshAxis::name);
  if (found == axes_.end()) return std::nullopt;
  return AxisId(static_cast<std::size_t>(found - axes_.begin()));
}

std::int64_t Mesh::size(const std::vector<AxisId>& axes) const {
  std::int64_t product = 1;
  for (const AxisId axis : axes) product *= size(axis);
  return product;
}

std::int64_t Mesh::coordinate(DeviceId device, AxisId axis) const {
  assert(contains(device));
  return coordinate_at(positions_.at(device), axis);
}

std::int64_t Mesh::coordinate_at(std::size_t position, AxisId axis) const {
  return static_cast<std::int64_t>(position) / strides_[axis.index()] % size(axis);
}

std::vector<DeviceId> Mesh::group(DeviceId device, const std::vector<AxisId>& axes) const {
  return group_at(positions_.at(device), axes);
}

std::vector<DeviceId> Mesh::group_at(std::size_t position, const std::vector<AxisId>& axes) const {
  auto first = static_cast<std::int64_t>(position);
  for (const AxisId axis : axes) first -= coordinate_at(position, axis) * strides_[axis.index()];
  std::vector<std::int64_t> positions = {first};
  for (const AxisId axis : axes) {
    std::vector<std::int64_t> longer;
    longer.reserve(positions.size() * static_cast<std::size_t>(size(axis)));
    for (const std::int64_t start : positions) {
      for (std::int64_t i = 0; i < size(axis); ++i) {
        longer.push_back(start + i * strides_[axis.index()]);
      }
    }
    positions = std::move(longer);
  }
  std::vector<DeviceId> members;
  members.reserve(positions.size());
  for (const std::int64_t member : positions) {
    members.push_back(devices_[static_cast<std::size_t>(member)]);
  }
  return members;
}

std::vector<std::vector<DeviceId>> Mesh::groups(const std::vector<AxisId>& axes) const {
  std::vector<std::vector<DeviceId>> all;
  all.reserve(devices_.size() / static_cast<std::size_t>(size(axes)));
  for (std::size_t position = 0; position < devices_.size(); ++position) {
    const bool first = std::ranges::all_of(
        axes, [&](const AxisId axis) { return coordinate_at(position, axis) == 0; });
    if (first) all.push_back(group_at(position, axes));
  }
  return all;
}

}  // namespace meshwright

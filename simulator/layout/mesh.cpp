#include "simulator/layout/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <utility>

namespace meshwright {

Mesh::Mesh(std::vector<MeshAxis> axes, std::vector<DeviceId> devices)
    : axes_(std::move(axes)),
      devices_(std::move(devices)),
      strides_(axes_.size(), 1),
      by_device_(devices_.size()) {
  assert(!fault_of(axes_, devices_));
  std::int64_t stride = 1;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    strides_[i] = stride;
    stride *= axes_[i].size;
  }
  std::iota(by_device_.begin(), by_device_.end(), std::uint32_t{0});
  if (!std::ranges::is_sorted(devices_)) {
    std::ranges::sort(by_device_, {}, [&](std::uint32_t position) { return devices_[position]; });
  }
}

std::optional<std::string> Mesh::fault_of(const std::vector<MeshAxis>& axes,
                                          const std::vector<DeviceId>& devices) {
  std::int64_t places = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].size < 1) return fmt::format("axis {} has no places", axes[i].name);
    for (std::size_t j = 0; j < i; ++j) {
      if (axes[i].name == axes[j].name) return fmt::format("axis {} stands twice", axes[i].name);
    }
    // Sizes are those of files: a product of several may be too large for any number.
    if (places > std::numeric_limits<std::int64_t>::max() / axes[i].size) {
      return "its axes have more places than can be counted";
    }
    places *= axes[i].size;
  }
  if (places != std::ssize(devices)) {
    return fmt::format("its axes have {} places for {} devices", places, devices.size());
  }
  std::vector<DeviceId> sorted = devices;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) return fmt::format("device {} stands twice", twice->index());
  return std::nullopt;
}

std::optional<std::size_t> Mesh::find(DeviceId device) const {
  const auto at = [&](std::uint32_t position) { return devices_[position]; };
  const auto found = std::ranges::lower_bound(by_device_, device, {}, at);
  if (found == by_device_.end() || at(*found) != device) return std::nullopt;
  return *found;
}

std::vector<std::int64_t> Mesh::coordinates_at(std::size_t position) const {
  std::vector<std::int64_t> coordinates;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    coordinates.push_back(coordinate_at(position, AxisId(i)));
  }
  return coordinates;
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
  return coordinate_at(*find(device), axis);
}

std::int64_t Mesh::coordinate_at(std::size_t position, AxisId axis) const {
  return static_cast<std::int64_t>(position) / strides_[axis.index()] % size(axis);
}

std::vector<DeviceId> Mesh::group(DeviceId device, const std::vector<AxisId>& axes) const {
  return group_at(*find(device), axes);
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

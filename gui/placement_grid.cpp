#include "gui/placement_grid.h"

#include <algorithm>

#include "simulator/report/time_parts.h"

namespace meshwright {
namespace {

constexpr int kLargestCell = 44;

}  // namespace

PlacementMap placement_of(const Plan& plan, const Represented& represented,
                          const Cluster& cluster) {
  PlacementMap placement;
  placement.devices.resize(static_cast<std::size_t>(device_count(cluster)));
  placement.slots = plan.slots.size();
  for (std::int64_t node = 0; node < node_count(cluster); ++node) {
    const DeviceRange range = devices_of(cluster, NodeId(static_cast<std::size_t>(node)));
    placement.first_of_node.push_back(static_cast<std::int64_t>(range.first));
    placement.widest_node = std::max(placement.widest_node, static_cast<std::int64_t>(range.count));
  }
  for (std::size_t slot = 0; slot < plan.slots.size(); ++slot) {
    const Mesh& mesh = plan.slots[slot].mesh;
    for (std::size_t i = 0; i < mesh.devices().size(); ++i) {
      PlacedDevice& device = placement.devices[mesh.devices()[i].index()];
      device.used = true;
      device.slot = slot;
      device.coordinates = mesh.coordinates_at(i);
    }
  }
  for (const MeshAxis& axis : plan.slots.front().mesh.axes()) {
    placement.axes.push_back(axis.name);
    placement.sizes.push_back(axis.size);
  }
  for (std::size_t i = 0; i < represented.classes.size(); ++i) {
    for (const DeviceId device : represented.classes[i])
      placement.devices[device.index()].report = i;
  }
  return placement;
}

std::vector<std::string> shades_of(const PlacementMap& placement) {
  std::vector<std::string> names = {"stage"};
  names.insert(names.end(), placement.axes.begin(), placement.axes.end());
  names.insert(names.end(), {"memory", "busy"});
  return names;
}

std::optional<double> shade_of(const PlacementMap& placement, const Report& report,
                               std::size_t device, const std::string& by) {
  const PlacedDevice& placed = placement.devices[device];
  if (!placed.used) return std::nullopt;
  const auto share = [](double index, double count) { return count > 1 ? index / (count - 1) : 0; };
  const DeviceReport& own = report.devices[placed.report];
  if (by == "memory") return std::min(1.0, Report::needed(own) / own.capacity);
  if (by == "busy") return report.step == Seconds(0) ? 0 : kernel_time(own.parts) / report.step;
  if (by == "stage") {
    return share(static_cast<double>(placed.slot), static_cast<double>(placement.slots));
  }
  const auto axis =
      static_cast<std::size_t>(std::ranges::find(placement.axes, by) - placement.axes.begin());
  if (axis >= placed.coordinates.size()) return std::nullopt;
  return share(static_cast<double>(placed.coordinates[axis]),
               static_cast<double>(placement.sizes[axis]));
}

GridLayout lay_out_grid(std::int64_t nodes, std::int64_t devices_of_node, int width, int height) {
  GridLayout best{.nodes = nodes, .devices_of_node = devices_of_node};
  for (int cell = kLargestCell; cell >= 1; --cell) {
    best.cell = cell;
    best.columns = std::max(1, width / best.node_width());
    const std::int64_t rows = (nodes + best.columns - 1) / best.columns;
    if (best.node_width() <= width && rows * best.node_height() <= height) break;
  }
  // No more columns than are needed.
  const std::int64_t rows = std::max<std::int64_t>(1, height / best.node_height());
  best.columns = std::clamp<int>(static_cast<int>((nodes + rows - 1) / rows), 1, best.columns);
  return best;
}

GridLayout enlarged(const GridLayout& layout, double factor) {
  GridLayout larger = layout;
  const double cell = std::min<double>(layout.cell * factor, std::max(layout.cell, kLargestCell));
  larger.cell = std::max(1, static_cast<int>(cell));
  return larger;
}

}  // namespace meshwright

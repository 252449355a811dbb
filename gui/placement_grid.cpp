#include "gui/placement_grid.h"

#include <algorithm>
#include <map>

#include "simulator/report/time_parts.h"

namespace meshwright {
namespace {

constexpr int kLargestCell = 88;

// The degrees that an axis is a part of.
std::vector<std::string> degrees_of(const std::string& axis) {
  const auto begins = [&](const char* with) { return axis.starts_with(with); };
  std::vector<std::string> names;
  if (axis == "rings" || axis == "cp" || axis == "ulysses") {
    names = {"cp"};
  } else if (begins("dp") || begins("shard")) {
    names = {"dp"};
  } else if (begins("tp") || begins("queries") || axis == "etp") {
    names = {"tp"};
  } else {
    names = {axis};
  }
  if (axis.ends_with("_ep")) names.emplace_back("ep");
  return names;
}

// Axes of a mesh by the degree that they are a part of, major to minor.
std::map<std::string, std::vector<AxisId>> axes_by_degree(const Mesh& mesh) {
  std::map<std::string, std::vector<AxisId>> result;
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
    const AxisId axis(i);
    if (mesh.size(axis) == 1) continue;
    for (const std::string& name : degrees_of(mesh.axis(axis).name)) result[name].push_back(axis);
  }
  return result;
}

// Which one a device is of all that the axes tell apart.
std::int64_t index_along(const Mesh& mesh, const std::vector<AxisId>& axes,
                         const std::vector<std::int64_t>& coordinates) {
  std::int64_t index = 0;
  for (const AxisId axis : axes) index = index * mesh.size(axis) + coordinates[axis.index()];
  return index;
}

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
  for (const auto& [name, axes] : axes_by_degree(plan.slots.front().mesh)) {
    placement.degrees.push_back({name, plan.slots.front().mesh.size(axes)});
  }
  for (std::size_t slot = 0; slot < plan.slots.size(); ++slot) {
    const Mesh& mesh = plan.slots[slot].mesh;
    auto axes = axes_by_degree(mesh);
    for (std::size_t i = 0; i < mesh.devices().size(); ++i) {
      PlacedDevice& device = placement.devices[mesh.devices()[i].index()];
      device.used = true;
      device.slot = slot;
      const auto coordinates = mesh.coordinates_at(i);
      for (const PlacementDegree& degree : placement.degrees) {
        device.coordinates.push_back(index_along(mesh, axes[degree.name], coordinates));
      }
    }
  }
  for (std::size_t i = 0; i < represented.classes.size(); ++i) {
    for (const DeviceId device : represented.classes[i])
      placement.devices[device.index()].report = i;
  }
  return placement;
}

std::vector<std::string> shades_of(const PlacementMap& placement) {
  std::vector<std::string> names = {"stage"};
  for (const PlacementDegree& degree : placement.degrees) names.push_back(degree.name);
  names.insert(names.end(), {"memory", "busy"});
  return names;
}

std::string usual_shade(const PlacementMap& placement) {
  const bool degree = placement.slots == 1 && !placement.degrees.empty();
  return degree ? placement.degrees.back().name : "stage";
}

std::optional<std::int64_t> values_of(const PlacementMap& placement, const std::string& by) {
  if (by == "stage") return static_cast<std::int64_t>(placement.slots);
  const auto degree = std::ranges::find(placement.degrees, by, &PlacementDegree::name);
  return degree == placement.degrees.end() ? std::nullopt : std::optional(degree->size);
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
  const auto degree = std::ranges::find(placement.degrees, by, &PlacementDegree::name);
  if (degree == placement.degrees.end()) return std::nullopt;
  const auto at = static_cast<std::size_t>(degree - placement.degrees.begin());
  return share(static_cast<double>(placed.coordinates[at]), static_cast<double>(degree->size));
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

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "simulator/classes/represent.h"
#include "simulator/plan/plan.h"
#include "simulator/report/report.h"

namespace meshwright {

// Where a device stands in a plan.
struct PlacedDevice {
  bool used = false;
  std::size_t slot = 0;
  std::vector<std::int64_t> coordinates;  // along the slot's axes
  std::size_t report = 0;                 // of the report's devices
};
struct PlacementMap {
  std::vector<std::string> axes;      // of the first slot's mesh
  std::vector<std::int64_t> sizes;    // of the axes
  std::vector<PlacedDevice> devices;  // of the cluster
  std::vector<std::int64_t> first_of_node;
  std::int64_t widest_node = 1;
  std::size_t slots = 1;
};
PlacementMap placement_of(const Plan& plan, const Represented& represented, const Cluster& cluster);

// What devices can be coloured by: "stage", an axis, "memory", "busy".
std::vector<std::string> shades_of(const PlacementMap& placement);
// From 0 to 1 for a device; none: it is idle.
std::optional<double> shade_of(const PlacementMap& placement, const Report& report,
                               std::size_t device, const std::string& by);

// Squares as large as fit: nodes below each other, in as many columns as that takes.
struct GridLayout {
  int cell = 1;     // pixels of a device
  int columns = 1;  // of nodes
  std::int64_t nodes = 1, devices_of_node = 1;
  int node_width() const {
    return cell * static_cast<int>(devices_of_node) + (cell > 3 ? cell / 2 : 1);
  }
  int node_height() const { return cell + (cell > 12 ? 2 : cell > 3 ? 1 : 0); }
  int width() const { return columns * node_width(); }
  int height() const { return static_cast<int>((nodes + columns - 1) / columns) * node_height(); }
};
GridLayout lay_out_grid(std::int64_t nodes, std::int64_t devices_of_node, int width, int height);
// The same with larger squares, as far as they can grow: every device keeps its place among others.
GridLayout enlarged(const GridLayout& layout, double factor);

}  // namespace meshwright

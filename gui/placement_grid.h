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
  std::vector<std::int64_t> coordinates;  // by degree: which of the dp replicas, of the tp devices
  std::size_t report = 0;                 // of the report's devices
};
// A degree of the plan as people know it: several axes of a mesh may be one, and axes that share
// experts out are of dp or tp besides. A mesh's own names stand for axes that are none.
struct PlacementDegree {
  std::string name;  // "dp", "tp", "cp", "ep"
  std::int64_t size = 1;
  friend bool operator==(const PlacementDegree&, const PlacementDegree&) = default;
};
struct PlacementMap {
  std::vector<PlacementDegree> degrees;  // of more than one device
  std::vector<PlacedDevice> devices;     // of the cluster
  std::vector<std::int64_t> first_of_node;
  std::int64_t widest_node = 1;
  std::size_t slots = 1;
};
PlacementMap placement_of(const Plan& plan, const Represented& represented, const Cluster& cluster);

// What devices can be coloured by: "stage", a degree, "memory", "busy".
std::vector<std::string> shades_of(const PlacementMap& placement);
// From 0 to 1 for a device; none: it is idle.
std::optional<double> shade_of(const PlacementMap& placement, const Report& report,
                               std::size_t device, const std::string& by);

// The one that tells most: stages where there are several, else a degree.
std::string usual_shade(const PlacementMap& placement);
// How many values the devices have of it; none: it is measured.
std::optional<std::int64_t> values_of(const PlacementMap& placement, const std::string& by);

// Squares as large as fit: nodes below each other, in as many columns as that takes, each with its
// name to the left where there is room for it.
struct GridLayout {
  int cell = 1;     // pixels of a device
  int columns = 1;  // of nodes
  std::int64_t nodes = 1, devices_of_node = 1;
  int name_width() const { return cell >= 14 ? 64 : 0; }
  int node_width() const {
    return name_width() + cell * static_cast<int>(devices_of_node) + (cell > 3 ? cell / 4 : 1);
  }
  int node_height() const { return cell + (cell > 12 ? 2 : cell > 3 ? 1 : 0); }
  int width() const { return columns * node_width(); }
  int height() const { return static_cast<int>((nodes + columns - 1) / columns) * node_height(); }
};
GridLayout lay_out_grid(std::int64_t nodes, std::int64_t devices_of_node, int width, int height);
// The same with larger squares, as far as they can grow: every device keeps its place among others.
GridLayout enlarged(const GridLayout& layout, double factor);

}  // namespace meshwright

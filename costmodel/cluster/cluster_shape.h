#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "costmodel/cluster/cluster.h"

namespace meshwright {

// The part of a shorthand after its colon: "4x8" or "12".
struct ClusterShape {
  std::optional<std::int64_t> nodes;  // none: as many as the devices need
  std::int64_t devices = 0;           // per node; without nodes: in all

  friend bool operator==(const ClusterShape&, const ClusterShape&) = default;
};

// None: the text has neither form, or a number is zero or beyond kMostDevices.
std::optional<ClusterShape> parse_cluster_shape(std::string_view text);

// A node with only the first `devices` of its devices. Levels that no longer connect anything
// more than the level inside them are gone.
NodeType with_devices(const NodeType& type, std::int64_t devices);

// Why `cluster` cannot have the shape, as the end of a sentence. None: it can.
std::optional<std::string> shape_problem(const Cluster& cluster, const ClusterShape& shape);

// The same nodes and network in another number. The shape must be possible.
Cluster with_shape(const Cluster& cluster, const ClusterShape& shape);

}  // namespace meshwright

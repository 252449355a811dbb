#pragma once

#include <optional>
#include <span>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "simulator/program/timeline.h"

namespace meshwright {

// What the devices of a node have on its host: each the most it ever has there at once, for memory
// that devices copy to and from is reserved and stays so.
struct HostUse {
  NodeId node;
  Bytes needed, capacity;
  bool is_too_much() const { return needed > capacity; }
  friend bool operator==(const HostUse&, const HostUse&) = default;
};

// Of the node whose host is fullest. None: no device has anything on a host. `classes` are the
// devices that each timeline stands for; empty: each for its own.
std::optional<HostUse> fullest_host(const Timeline& timeline,
                                    std::span<const std::vector<DeviceId>> classes,
                                    const Cluster& cluster);

}  // namespace meshwright

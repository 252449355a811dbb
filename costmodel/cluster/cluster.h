#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/ids.h"
#include "costmodel/base/precision.h"
#include "costmodel/base/sourced.h"
#include "costmodel/base/units.h"
#include "costmodel/cluster/fabric.h"

namespace meshwright {

// What is known about one kind of device.
struct DeviceType {
  std::string name;
  Sourced<Bytes> memory;
  Sourced<BytesPerSecond> memory_bandwidth;
  // Dense matrix multiplication; a precision that is not here cannot be computed in.
  std::map<Precision, Sourced<FlopsPerSecond>> peak = {};
  std::optional<Sourced<std::int64_t>> multiprocessors = {};
  std::optional<Sourced<Bytes>> l2 = {};
  // The largest share of the peak that any 16-bit matrix multiplication was seen to reach.
  std::optional<Sourced<double>> matmul_share = {};
  std::optional<Sourced<DollarsPerHour>> price = {};

  friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

// The host that devices of a node offload to. One link carries the traffic of `devices_per_link`
// devices.
struct Host {
  Sourced<Bytes> memory;  // of the whole node
  Sourced<BytesPerSecond> bandwidth;
  Sourced<std::int64_t> devices_per_link;

  friend bool operator==(const Host&, const Host&) = default;
};

// One level of links: neighbours form groups of `span` members, and any two members of a group
// reach each other through this level. Members are devices inside a node, nodes in the network.
// The last group may have fewer members.
struct LinkLevel {
  std::string name;
  std::optional<std::int64_t> span = {};  // none: the whole node, or the whole cluster
  Sourced<BytesPerSecond> bandwidth;      // per device, one way
  // Of one step, as NCCL's tuner counts it for small messages: transfers take a number of these
  // that depends on the fabric.
  Sourced<Seconds> latency;
  std::optional<Sourced<Fabric>> fabric = {};  // none: see fabric_of
  // How many times the devices' bandwidth exceeds what the level carries when all send at once.
  Sourced<double> oversubscription;
  bool rails = false;  // device i of each node is connected to device i of the others

  friend bool operator==(const LinkLevel&, const LinkLevel&) = default;
};

struct NodeType {
  std::string name;
  DeviceType device;
  std::int64_t devices = 0;
  std::optional<Host> host = {};  // none: nothing can be offloaded
  std::vector<LinkLevel> levels =
      {};  // innermost first, the last spans the node; none for one device
  // Bandwidth per device by the name of a network level, where it is not that level's.
  std::map<std::string, Sourced<BytesPerSecond>> network_bandwidth = {};

  friend bool operator==(const NodeType&, const NodeType&) = default;
};

struct NodeGroup {
  std::size_t type = 0;  // index into Cluster::node_types
  std::int64_t count = 0;

  friend bool operator==(const NodeGroup&, const NodeGroup&) = default;
};

// What is slower about one device than about others of its type.
struct DeviceException {
  DeviceId device;
  double speed = 1;                                      // of its kernels, as a share of its type's
  std::map<std::string, BytesPerSecond> bandwidth = {};  // by the name of a level

  friend bool operator==(const DeviceException&, const DeviceException&) = default;
};

// Devices, nodes and links as nested levels. Nodes are numbered through the groups in their order,
// devices through the nodes.
struct Cluster {
  std::string name;
  std::optional<std::string> description = {};  // one line for lists
  std::vector<NodeType> node_types = {};
  std::vector<NodeGroup> nodes = {};
  std::vector<LinkLevel> network = {};           // innermost first, the last spans the cluster
  std::vector<DeviceException> exceptions = {};  // by device, each at most once

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

// Files and shorthands that describe more are refused.
inline constexpr std::int64_t kMostDevices = 1 << 20;

// Devices with consecutive numbers.
struct DeviceRange {
  std::size_t first = 0;
  std::size_t count = 0;

  bool contains(DeviceId device) const {
    return device.index() >= first && device.index() - first < count;
  }
  friend auto operator<=>(const DeviceRange&, const DeviceRange&) = default;
};

// Names one level of a cluster.
struct LevelId {
  std::optional<std::size_t> node_type;  // none: a level of the network
  std::size_t index = 0;

  friend auto operator<=>(const LevelId&, const LevelId&) = default;
};

std::int64_t node_count(const Cluster& cluster);
std::int64_t device_count(const Cluster& cluster);

NodeId node_of(const Cluster& cluster, DeviceId device);
DeviceRange devices_of(const Cluster& cluster, NodeId node);
const NodeType& node_type_of(const Cluster& cluster, NodeId node);
const DeviceType& device_type_of(const Cluster& cluster, DeviceId device);

const LinkLevel& level(const Cluster& cluster, LevelId id);
// Every level: those inside each node type, then the network's, each innermost first.
std::vector<LevelId> levels(const Cluster& cluster);
// The groups a level forms, in the order of their devices.
std::vector<DeviceRange> groups_of(const Cluster& cluster, LevelId id);
// The group of `device` at a level. None: the level is inside nodes of another type.
std::optional<DeviceRange> group_of(const Cluster& cluster, LevelId id, DeviceId device);
// The innermost level whose group holds both. None: they are the same device.
std::optional<LevelId> level_between(const Cluster& cluster, DeviceId a, DeviceId b);
// What one device can send through a level that it is connected to: what devices of its node type
// can, and with its own exception.
BytesPerSecond typical_bandwidth(const Cluster& cluster, LevelId id, DeviceId device);
BytesPerSecond bandwidth_of(const Cluster& cluster, LevelId id, DeviceId device);
// As the file says, or the usual one.
Fabric fabric_of(const Cluster& cluster, LevelId id);
// The devices that reach each other as inside a node: those of the node, or of all nodes that
// NVLink joins to it (a rack).
DeviceRange domain_of(const Cluster& cluster, DeviceId device);
// Of its kernels, as a share of what its type reaches: 1 without an exception.
double speed_of(const Cluster& cluster, DeviceId device);

// Sums over the cluster. None: some device or node does not have it, or nobody said.
Bytes total_memory(const Cluster& cluster);
std::optional<FlopsPerSecond> total_peak(const Cluster& cluster, Precision precision);
std::optional<Bytes> total_host_memory(const Cluster& cluster);
std::optional<DollarsPerHour> total_price(const Cluster& cluster);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/profile/profile.h"

namespace meshwright {

// How two places of a node reach each other, nearest first: by NVLink; by one PCIe switch; by
// several; through a host bridge; within one NUMA node; across sockets.
enum class PathKind { NvLink, OneSwitch, Switches, HostBridge, NumaNode, System };
std::string_view to_text(PathKind kind);  // as nvidia-smi prints it: "PIX"

struct DevicePath {
  PathKind kind = PathKind::System;
  std::int64_t links = 0;  // of NVLink
  friend bool operator==(const DevicePath&, const DevicePath&) = default;
};

struct PcieLink {
  std::int64_t generation = 0, lanes = 0;
  friend bool operator==(const PcieLink&, const PcieLink&) = default;
};
// One way, after the encoding of 128 bits in 130 (of 8 in 10 before the third generation).
BytesPerSecond bandwidth_of(const PcieLink& link);

// What a file says of a device; none: it does not.
struct DeviceFacts {
  std::optional<std::string> bus;      // "0000:07:00.0"
  std::optional<std::string> product;  // "NVIDIA H100 80GB HBM3"
  std::optional<Bytes> memory;
  std::optional<PcieLink> pcie, pcie_now;  // what it can, what it runs at
};

struct NicFacts {
  std::string name;
  std::optional<BytesPerSecond> speed;
};

// What one file says of one node. Devices are in the order of the file, which in all of them is
// that of the PCI bus.
struct NodeFacts {
  std::optional<std::string> host;
  std::vector<DeviceFacts> devices;
  std::vector<std::vector<DevicePath>> paths;  // [device][device]; empty: not said
  std::vector<NicFacts> nics;
  std::vector<std::vector<PathKind>> nic_paths;  // [device][nic]; empty: not said
  std::optional<Bytes> host_memory;
  std::optional<std::int64_t> devices_per_link;  // that share one link to the host
};

// Which nodes there are.
struct NodeList {
  std::vector<std::string> hosts;
  std::optional<std::int64_t> devices_per_node;
};

struct NetworkSwitch {
  std::string name;
  std::int64_t level = 0;
  std::vector<std::string> hosts;
};
struct SwitchTree {
  std::vector<NetworkSwitch> switches;  // in the order of the file
};

// Measured collectives, in Profile::transfers.
struct Measurements {
  Profile profile;
};

using ClusterFacts = std::variant<NodeFacts, NodeList, SwitchTree, Measurements>;

// "0000:07:00.0" for what is written as 00000000:07:00.0, 0000:07:00 or 07:00.0, of any case. None:
// it is no address of a PCI device.
std::optional<std::string> bus_address(std::string_view text);

}  // namespace meshwright

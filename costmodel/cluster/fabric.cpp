#include "costmodel/cluster/fabric.h"

namespace meshwright {

std::string_view to_text(Fabric fabric) {
  switch (fabric) {
    case Fabric::NvLink:
      return "nvlink";
    case Fabric::NvLinkRack:
      return "nvlink-rack";
    case Fabric::Xgmi:
      return "xgmi";
    case Fabric::Pcie:
      return "pcie";
    case Fabric::Memory:
      return "memory";
    case Fabric::InfiniBand:
      return "infiniband";
    case Fabric::Roce:
      return "roce";
    case Fabric::Efa:
      return "efa";
    case Fabric::Slingshot:
      return "slingshot";
    case Fabric::Ethernet:
      return "ethernet";
  }
  return "";
}

std::optional<Fabric> parse_fabric(std::string_view text) {
  for (const Fabric fabric : kFabrics) {
    if (to_text(fabric) == text) return fabric;
  }
  return std::nullopt;
}

bool joins_nodes(Fabric fabric) { return fabric == Fabric::NvLink || fabric == Fabric::NvLinkRack; }

bool inside_nodes(Fabric fabric) { return joins_nodes(fabric) || !between_nodes(fabric); }

bool between_nodes(Fabric fabric) {
  switch (fabric) {
    case Fabric::NvLink:
    case Fabric::NvLinkRack:
    case Fabric::InfiniBand:
    case Fabric::Roce:
    case Fabric::Efa:
    case Fabric::Slingshot:
    case Fabric::Ethernet:
      return true;
    case Fabric::Xgmi:
    case Fabric::Pcie:
    case Fabric::Memory:
      return false;
  }
  return false;
}

Fabric usual_fabric(bool between) { return between ? Fabric::InfiniBand : Fabric::Pcie; }

Seconds usual_latency(Fabric fabric) {
  switch (fabric) {
    case Fabric::NvLink:
    case Fabric::NvLinkRack:
      return 0.6_us;
    case Fabric::Xgmi:
    case Fabric::Pcie:
      return 1.0_us;
    case Fabric::InfiniBand:
    case Fabric::Roce:
    case Fabric::Slingshot:
      return 2.7_us;
    case Fabric::Memory:
    case Fabric::Efa:
    case Fabric::Ethernet:
      return 12.0_us;
  }
  return Seconds(0);
}

}  // namespace meshwright

#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "costmodel/base/units.h"

namespace meshwright {

// What the links of a level are. How often a transfer waits for their latency is fitted by fabric.
// A rack of NVLink switches is a fabric of its own: the same collectives take other ways in it than
// in a node.
enum class Fabric {
  NvLink,
  NvLinkRack,
  Xgmi,
  Pcie,
  Memory,
  InfiniBand,
  Roce,
  Efa,
  Slingshot,
  Ethernet,
};
inline constexpr std::array kFabrics = {
    Fabric::NvLink,     Fabric::NvLinkRack, Fabric::Xgmi, Fabric::Pcie,      Fabric::Memory,
    Fabric::InfiniBand, Fabric::Roce,       Fabric::Efa,  Fabric::Slingshot, Fabric::Ethernet};

std::string_view to_text(Fabric fabric);
std::optional<Fabric> parse_fabric(std::string_view text);

// Whether nodes that it connects are one domain: devices reach each other as inside a node.
bool joins_nodes(Fabric fabric);
// Whether it is found inside nodes, or between them; NVLink is both.
bool inside_nodes(Fabric fabric);
bool between_nodes(Fabric fabric);

// Where a cluster file does not say: InfiniBand between nodes, PCIe inside them.
Fabric usual_fabric(bool between);
// Of a step, where a cluster file does not say: what NCCL's tuner counts for a hop of its LL
// protocol over NVLink, PCIe and networks, and for the others the same by what the tree of small
// all-reduces was measured to take.
Seconds usual_latency(Fabric fabric);

}  // namespace meshwright

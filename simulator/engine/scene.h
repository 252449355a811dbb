#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/price/link_use.h"
#include "simulator/engine/meetings.h"
#include "simulator/program/program.h"

namespace meshwright {

// A transfer's use of a link of the scene.
struct SceneUse {
  std::uint32_t link = 0;
  // How many transfers of equal devices cross the same link at the same time.
  std::uint32_t multiplicity = 1;
  double share = 0;  // as in LinkLoad
  friend auto operator<=>(const SceneUse&, const SceneUse&) = default;
};

// What the copies of a device cross, by direction.
using CopyUses = std::array<std::vector<SceneUse>, kCopyDirections>;

// Who plays: one program for every device, or one for every class of equal devices; which of their
// transfer tasks are one transfer; and the links those cross.
struct Scene {
  std::span<const Program> programs;  // must outlive this
  Meetings meetings;
  std::vector<std::int64_t> counts;   // by program: devices it stands for
  std::vector<BytesPerSecond> links;  // what each carries
  std::vector<double> speeds;         // by program: of its device, as a share of its type's
  // By program and transfer; empty where links do not matter.
  std::vector<std::vector<std::vector<SceneUse>>> uses;
  std::vector<std::vector<bool>> inside_node;
  std::vector<CopyUses> copy_uses;  // by program; empty where links do not matter
};

// Every device with its own program.
Scene scene_of(std::span<const Program> programs);
Scene scene_of(std::span<const Program> programs, const Cluster& cluster);

}  // namespace meshwright

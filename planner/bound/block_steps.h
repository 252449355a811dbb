#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/bound/max_plus.h"

namespace meshwright {

class PricedProgram;
class StretchPlay;
struct BlockWeight;
struct Fragment;

// Where something happens in a block's steps: at one of them, and which of several there.
struct StepPlace {
  std::uint16_t step = 0, rank = 0;
  friend auto operator<=>(const StepPlace&, const StepPlace&) = default;
};

// Kernels that follow each other, between which nothing else begins or ends, or a transfer.
struct BlockStep {
  double seconds = 0;
  // As LaneTimes counts them; those beyond it are free when the block begins.
  std::uint8_t lane = kCompute;
  bool waits_for_compute = false;  // for all kernels before it
  bool reads_boundary = false, writes_boundary = false;
  std::uint16_t first_wait = 0, wait_count = 0;
};

// What one device does with a block in one direction, one after the other. A matrix says the same
// of it as a whole; with these something may be waited for in between.
struct BlockSteps {
  std::vector<BlockStep> steps;
  std::vector<std::uint16_t> waits;  // steps of other lanes
  bool passes_boundary = false;      // what comes in goes on as it is
};

// Of a stretch that was played. The block's weights learn where they are first used in it, and
// where their gradients are complete.
BlockSteps block_steps(const PricedProgram& priced, const Fragment& fragment,
                       const StretchPlay& play, std::vector<BlockWeight>& weights);

}  // namespace meshwright

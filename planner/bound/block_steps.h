#pragma once

#include <algorithm>
#include <array>
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

// A step starts so long after another's end, at least.
struct StepWait {
  std::uint16_t step = 0;
  double plus = 0;
};

// What one device does with a block in one direction, one after the other. A matrix says the same
// of it as a whole; with these something may be waited for in between.
struct BlockSteps {
  std::vector<BlockStep> steps;
  std::vector<StepWait> waits;
  bool passes_boundary = false;  // what comes in goes on as it is
};

// Plays steps from a state. A step waits for what `ready(step, came)` says, `came` being what
// computing has come to; it takes what `takes(step, start)` says; and `ended(step, finish, came)`
// may hold computing back. Returns the state after them.
template <class Ready, class Takes, class Ended>
LaneTimes play_steps(const BlockSteps& block, const LaneTimes& state, std::vector<double>& finish,
                     const Ready& ready, const Takes& takes, const Ended& ended) {
  constexpr std::size_t kLanes = 16;  // more are taken as free
  std::array<double, kLanes> lanes;
  lanes.fill(kNever);
  std::ranges::copy(state, lanes.begin());
  double boundary = block.passes_boundary ? state[kBoundary] : kNever;
  finish.resize(block.steps.size());
  for (std::uint16_t s = 0; s < block.steps.size(); ++s) {
    const BlockStep& step = block.steps[s];
    double start = ready(s, lanes[kCompute]);
    for (std::size_t w = 0; w < step.wait_count; ++w) {
      const StepWait& wait = block.waits[step.first_wait + w];
      start = std::max(start, finish[wait.step] + wait.plus);
    }
    if (step.reads_boundary) start = std::max(start, state[kBoundary]);
    if (step.waits_for_compute) start = std::max(start, lanes[kCompute]);
    if (step.lane < kLanes) start = std::max(start, lanes[step.lane]);
    finish[s] = start + takes(step, start);
    if (step.lane < kLanes) lanes[step.lane] = finish[s];
    if (step.writes_boundary) boundary = finish[s];
    ended(s, finish[s], lanes[kCompute]);
  }
  LaneTimes after = state;
  std::copy_n(lanes.begin(), kStateSize, after.begin());
  after[kBoundary] = boundary;
  return after;
}

// Of a stretch that was played. The block's weights learn where they are first used in it, and
// where their gradients are complete.
BlockSteps block_steps(const PricedProgram& priced, const Fragment& fragment,
                       const StretchPlay& play, std::vector<BlockWeight>& weights);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <vector>

#include "simulator/engine/score.h"
#include "simulator/program/timeline.h"

namespace meshwright {

// When everything ran. Times count from the start of the first step.
struct Played {
  std::vector<std::vector<TaskSpan>> steps;  // of each step by task
  // A lane that could never go on: what is wrong with the programs is for the caller to say.
  struct Block {
    std::uint32_t task = 0;
    std::optional<std::uint32_t> waits_for;  // none: for members of its group
  };
  std::optional<Block> block;
};

// When the host of a device has launched a task: it launches in list order, step after step, from
// the start or from where it last waited. What it waited for must have been played.
double launch_time(const Score& score, const Played& played, std::uint32_t task, std::uint32_t step,
                   double dispatch);

// Every task takes its time alone: nothing is shared and nothing slowed. One pass without a queue
// of events, since a time then depends on finished times only.
Played play_alone(const Score& score, const EngineOptions& options);

// Event by event: transfers share links and slow kernels. Where none meets another the times are
// those of play_alone, to the bit.
Played play_shared(const Score& score, const EngineOptions& options);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/plan/plan.h"

namespace meshwright {

using PipelineOrder = std::vector<std::vector<OrderEntry>>;  // of each slot
using UnitTimes = std::vector<std::vector<std::int64_t>>;    // of each entry of each slot

// Chunk c stands on stage c mod `stages`.
//
// One forward, one backward: a stage starts with as many forwards as there are stages after it,
// then alternates; with several chunks a stage it is the interleaved order of Narayanan et al.,
// Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, SC'21, 2.2.2.
// There the stages must divide the micro-batches; here any number will do. GPipe: all forwards,
// then all backwards.
PipelineOrder one_forward_one_backward(std::int64_t stages, std::int64_t microbatches,
                                       std::int64_t chunks_per_stage = 1);
PipelineOrder gpipe(std::int64_t stages, std::int64_t microbatches,
                    std::int64_t chunks_per_stage = 1);

// When each entry of each slot starts if every entry takes one unit of time and transfers none.
// The chunks' order is that of the forward. None: the orders wait for each other in a circle, or
// an entry needs one that is nowhere.
std::optional<UnitTimes> unit_times(const Plan& plan);

}  // namespace meshwright

#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "planner/bound/block_bounds.h"
#include "planner/bound/stretch_play.h"

namespace meshwright {

// Buffers of a micro-batch with the first and the last kernel that uses each.
struct BufferLife {
  Bytes size;
  std::size_t first = 0, last = 0;
  std::size_t forward_last = 0, backward_first = 0;  // of those used in both directions
  // That leaves it; none: it is another layout of what an op leaves, and may be made again.
  std::optional<std::size_t> op = {};
};
std::vector<BufferLife> lives_of(const PricedProgram& priced, const Fragment& fragment,
                                 Precision precision);

// Whether an op's weights are of experts that replicas share out among them.
bool is_routed(const PlannedGraph& planned, const Plan& plan, std::size_t op);
std::map<WeightId, std::size_t> uses_of_weights(const OpGraph& graph);

// Of a block's weights and gradients that are elsewhere, those that are whole while each task of
// the program runs; `uses`: of all weights. `in_order`: memory is taken as tasks are listed,
// whenever they run.
std::vector<Peaks> fetched_by(const PricedProgram& priced, const Fragment& fragment,
                              const PlannedGraph& planned, const Plan& plan, const OpRange& ops,
                              const std::map<WeightId, std::size_t>& uses, bool in_order);

// The same at the least, of a block that computes nothing again, however much others do.
std::vector<Peaks> fetched_at_least(const PricedProgram& priced, const Fragment& fragment,
                                    const PlannedGraph& planned, const Plan& plan,
                                    const OpRange& ops, const std::map<WeightId, std::size_t>& uses,
                                    std::vector<Peaks> fetched);

// What the block keeps, and the most that there is in each direction.
void add_memory(BlockBound& cost, const PricedProgram& priced, const std::vector<BufferLife>& lives,
                const std::vector<Peaks>& fetched, const Stretch& forward, const Stretch& backward,
                const OpRange& ops);

// The same at the least, with what of weights and gradients is whole then: a layer keeps nothing.
BlockMemory least_memory(const BlockBound& cost, const PricedProgram& priced,
                         std::vector<BufferLife> lives, const std::vector<Peaks>& fetched,
                         const Stretch& forward, const Stretch& backward);

// Of the last block, whose tasks these are.
ClosingMemory closing_memory(const PricedProgram& priced, const Fragment& fragment,
                             Precision precision, const Stretch& forward, const Stretch& backward);

}  // namespace meshwright

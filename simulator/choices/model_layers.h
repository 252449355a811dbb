#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/model/model.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// The layers that a pipeline's chunks share: repetitions of repeated blocks.
struct ModelLayers {
  std::vector<std::size_t> starts;  // first op of each
  std::size_t end = 0;              // after the last one's ops
  std::int64_t count() const { return static_cast<std::int64_t>(starts.size()); }
};
ModelLayers find_layers(const Model& model);

// Those that lie in a chunk, as ranges of ops.
std::vector<OpRange> layers_in(const ModelLayers& layers, const Chunk& chunk);

// Chunks of so many layers each, which go round the slots. What stands before and after the layers
// goes with the first and the last chunk.
std::vector<Chunk> cut_chunks(const Model& model, const std::vector<std::int64_t>& layers,
                              std::size_t slots);

// So many layers in so many chunks, as equal as can be: earlier ones get what is left over.
std::vector<std::int64_t> equal_layers(std::int64_t layers, std::int64_t chunks);

}  // namespace meshwright

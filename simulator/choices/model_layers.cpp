#include "simulator/choices/model_layers.h"

#include "simulator/layout/layout.h"

namespace meshwright {

ModelLayers find_layers(const Model& model) {
  ModelLayers layers;
  std::size_t op = 0;
  for (const Block& block : model.blocks) {
    for (std::int64_t r = 0; r < block.count; ++r) {
      if (block.count > 1) layers.starts.push_back(op);
      op += block.ops.size();
      if (block.count > 1) layers.end = op;
    }
  }
  return layers;
}

std::vector<OpRange> layers_in(const ModelLayers& layers, const Chunk& chunk) {
  std::vector<OpRange> inside;
  for (std::size_t i = 0; i < layers.starts.size(); ++i) {
    const std::size_t end = i + 1 < layers.starts.size() ? layers.starts[i + 1] : layers.end;
    if (layers.starts[i] >= chunk.first_op && end <= chunk.end_op) {
      inside.push_back({layers.starts[i], end});
    }
  }
  return inside;
}

std::vector<Chunk> cut_chunks(const Model& model, const std::vector<std::int64_t>& layers,
                              std::size_t slots) {
  const ModelLayers found = find_layers(model);
  std::vector<Chunk> chunks;
  std::size_t first = 0, placed = 0;
  for (const std::int64_t count : layers) {
    placed += static_cast<std::size_t>(count);
    const std::size_t end = placed < found.starts.size() ? found.starts[placed] : found.end;
    chunks.push_back({first, end, chunks.size() % slots});
    first = end;
  }
  std::size_t ops = 0;
  for (const Block& block : model.blocks) {
    ops += block.ops.size() * static_cast<std::size_t>(block.count);
  }
  chunks.back().end_op = ops;
  return chunks;
}

std::vector<std::int64_t> equal_layers(std::int64_t layers, std::int64_t chunks) {
  std::vector<std::int64_t> counts;
  for (std::int64_t c = 0; c < chunks; ++c) {
    counts.push_back(part_of({0, layers}, chunks, c).size);
  }
  return counts;
}

}  // namespace meshwright

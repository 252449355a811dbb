#pragma once

#include <string>
#include <vector>

#include "planner/bound/block_bounds.h"

namespace meshwright {

// An op of the model's layers, as one device computes it for a micro-batch.
struct LayerOp {
  std::vector<std::string> tensors;  // that it computes, by their names within the layer
  double seconds = 0;                // of its forward, transfers with it
  Bytes kept;                        // for the backward
  std::vector<std::size_t> inputs;   // ops of the layer that it reads
};

// Of the kind of layer that there are most of; none: the model has no layers, or cannot be planned
// so.
std::vector<LayerOp> layer_ops(const PlanChoices& choices, const BatchChoice& batch,
                               const Setting& setting);

}  // namespace meshwright

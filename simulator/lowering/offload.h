#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "simulator/lowering/fragment.h"

namespace meshwright {

// What the forward of a chunk leaves for its backward: a tensor, or what a kernel keeps beside
// tensors.
struct KeptBuffer {
  std::string name;
  BufferElement element = BufferElement::Real;
  std::size_t first_reader = 0;  // the op at whose gradients the backward first uses it
};

// As the slot's first device has them, in the order in which they are first computed. Every device
// of the slot has the same ones. The plan's offload does not matter, the rest must be a plan that
// check_plan has nothing against.
std::vector<KeptBuffer> kept_for_backward(const PlannedGraph& planned, const Plan& plan,
                                          std::size_t chunk);

// Copies what the plan wants of the chunk's kept buffers to the host and back into others before
// the backward comes to them. A copy to the host stands after the last use in the forward, but
// waits only for what has been written.
void offload_kept(Fragment& fragment, const Plan& plan, std::size_t chunk);

// What `offload=activations` stands for: of the layers of each chunk, by chunk as ranges of ops,
// of all or of the first `most`, all numbers that are kept, brought back when the backward comes to
// the layer behind; those of the last layer ahead of the chunk's entry. Where entries of the
// backward follow their forward directly, the last layer keeps its own: they would come back at
// once.
std::vector<OffloadedTensors> offload_layers(const PlannedGraph& planned, const Plan& plan,
                                             const std::vector<std::vector<OpRange>>& layers,
                                             std::size_t most);

}  // namespace meshwright

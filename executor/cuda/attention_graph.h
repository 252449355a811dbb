#pragma once

#include "executor/cuda/cudnn_graph.h"

namespace meshwright::cuda {

// How far it is from one batch, token and head of a tensor to the next, in elements.
struct HeadSteps {
  std::int64_t batch = 0, token = 0, head = 0;
};

// Attention of whole sequences: q, k, v, y of [batch, sequence, heads, head size].
struct AttentionShape {
  std::int64_t batch = 1, heads = 1, sequence = 1, size = 64, value_size = 64;
  bool causal = true;
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  // By operand of the kernel; none: without gaps.
  std::vector<HeadSteps> steps = {};
};

// A tensor that the graph reads or writes in device memory.
struct GraphMemory {
  std::int64_t id = 0;
  std::int64_t elements = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool zeroed = false;                      // must be 0 before each run: it is added to
  std::optional<std::size_t> operand = {};  // of the kernel, whose memory it is; none: its own
};
// A number that the graph reads from the host.
struct GraphNumber {
  std::int64_t id = 0;
  float value = 0;
};

// Flash attention as cuDNN finds it in a graph of operations (Dao et al. 2022): the shape of the
// graph is what its engines look for (cuDNN's documentation, "Fused Attention").
struct AttentionGraph {
  CudnnGraph graph;
  std::vector<GraphMemory> memory;
  std::vector<GraphNumber> numbers;
};
AttentionGraph attention_forward_graph(const AttentionShape& shape, float scale);
AttentionGraph attention_gradient_graph(const AttentionShape& shape, float scale);

}  // namespace meshwright::cuda

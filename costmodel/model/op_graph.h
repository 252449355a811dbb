#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/ids.h"
#include "costmodel/model/op.h"

namespace meshwright {

struct GraphWeight {
  std::string name;         // as the checkpoint has it; a '*' counts through the first dimension
  std::vector<DimId> dims;  // in the order the checkpoint stores them
  bool frozen = false;
  friend bool operator==(const GraphWeight&, const GraphWeight&) = default;
};

struct GraphOp {
  OpKind kind = OpKind::Generic;
  std::string name;
  std::vector<TensorId> inputs;
  std::vector<WeightId> weights;  // a weight that several ops name is tied
  std::vector<TensorId> outputs;
  OpAttributes attributes;
  friend bool operator==(const GraphOp&, const GraphOp&) = default;
};

// A model as a flat list of ops, each after the ops it reads: what readers produce and what the
// graph file holds. Model is made from it.
struct OpGraph {
  std::string name;
  std::vector<std::string> notes;                // what a reader left out, in words
  std::optional<std::int64_t> longest_sequence;  // where positions are learned
  std::vector<Dim> dims;
  std::vector<Tensor> tensors;
  std::vector<TensorId> inputs;  // tensors that no op produces
  std::vector<GraphWeight> weights;
  std::vector<GraphOp> ops;
  friend bool operator==(const OpGraph&, const OpGraph&) = default;
};

// More than any dimension has, small enough that a few can be added.
inline constexpr std::int64_t kLargestDim = std::int64_t{1} << 40;

// Throws InputError, naming `source` and the op, unless the graph is one: every tensor written
// once, then read (but the last op's), operands as their kind wants and results as its kernel
// writes them, a number of parameters that fits into 64 bits. Ids must be in range.
void check_graph(const OpGraph& graph, const std::string& source);

// The graph with `needs_gradient` of every tensor derived from which weights are frozen.
OpGraph with_gradients(OpGraph graph);

}  // namespace meshwright

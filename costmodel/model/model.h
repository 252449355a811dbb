#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/ids.h"
#include "costmodel/model/op.h"
#include "costmodel/model/op_graph.h"

namespace meshwright {

// A weight of a block: one tensor in every repetition, all of one shape.
struct Weight {
  std::vector<std::string> names;  // one per repetition; one in all for a shared weight
  std::vector<DimId> dims;
  bool frozen = false;
  friend bool operator==(const Weight&, const Weight&) = default;
};

struct WeightUse {
  bool shared = false;  // of the model (tied over blocks or repetitions), else of the block
  WeightId id;
  friend bool operator==(const WeightUse&, const WeightUse&) = default;
};

struct Op {
  OpKind kind = OpKind::Generic;
  std::string name;                // a '*' stands for what differs among the repetitions
  std::vector<std::string> names;  // one per repetition
  std::vector<TensorId> inputs;
  std::vector<WeightUse> weights;
  std::vector<TensorId> outputs;
  OpAttributes attributes;
  friend bool operator==(const Op&, const Op&) = default;
};

// A tensor outside a block: an input of the model, or what an earlier block's last repetition
// produced.
struct OuterTensor {
  std::optional<std::size_t> block;  // none: an input of the model
  TensorId tensor;
  friend bool operator==(const OuterTensor&, const OuterTensor&) = default;
};

// How a tensor comes into a block. The first repetition reads `source`; the others read the
// block's own tensor `carried` of the repetition before them, or `source` too.
struct BlockInput {
  OuterTensor source;
  std::optional<TensorId> carried;
  friend bool operator==(const BlockInput&, const BlockInput&) = default;
};

// Ops that are repeated `count` times in a row, stored once.
struct Block {
  std::string name;
  std::int64_t count = 1;
  std::vector<Tensor> tensors;     // first the inputs, then what the ops produce
  std::vector<BlockInput> inputs;  // of tensors[0], tensors[1], ...
  std::vector<Weight> weights;
  std::vector<Op> ops;
  friend bool operator==(const Block&, const Block&) = default;
};

// A model as planners see it: a chain of blocks of ops over named dimensions. The blocks are
// found in the graph, not assumed.
struct Model {
  std::string name;
  std::vector<std::string> notes;
  std::optional<std::int64_t> longest_sequence;
  std::vector<Dim> dims;
  std::vector<Tensor> inputs;
  std::vector<Weight> shared_weights;
  std::vector<Block> blocks;
  std::string hash;  // of all this but the notes: costmodel/model/model_hash.h
  friend bool operator==(const Model&, const Model&) = default;
};

// Finds the repeated blocks of a checked graph. Time O(ops^2).
Model make_model(const OpGraph& graph);

// The graph again, op by op: make_model's inverse.
OpGraph unroll(const Model& model);

const Weight& weight_of(const Model& model, const Block& block, const WeightUse& use);

// Of a fixed dimension, by its name. 0: the model has none of that name.
std::int64_t size_of_dim(const Model& model, std::string_view name);

// Sizes of the named dimensions once batch and sequence are known.
class DimSizes {
 public:
  DimSizes(const Model& model, std::int64_t batch, std::int64_t sequence);
  std::int64_t operator[](DimId dim) const { return sizes_[dim.index()]; }
  // Number of elements of a tensor with these dimensions.
  std::int64_t elements(const std::vector<DimId>& dims) const;

 private:
  std::vector<std::int64_t> sizes_;
};

struct ParameterCount {
  std::int64_t total = 0;
  std::int64_t trainable = 0;
  // Read for one token: of the experts only as many as are chosen.
  std::int64_t active = 0;
  friend bool operator==(const ParameterCount&, const ParameterCount&) = default;
};
// A tied weight counts once.
ParameterCount count_parameters(const Model& model);

}  // namespace meshwright

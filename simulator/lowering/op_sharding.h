#pragma once

#include <map>
#include <string>
#include <vector>

#include "costmodel/kernel/kernel.h"
#include "costmodel/model/model.h"
#include "costmodel/model/op_graph.h"
#include "simulator/lowering/placement.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// The model op by op, with what the plan says of each op.
struct PlannedGraph {
  OpGraph graph;
  std::vector<std::string> patterns;     // of each op: its name in the blocks
  std::vector<const OpLayout*> layouts;  // of each op: into the plan, none if it is not split
  std::vector<std::size_t> producer;     // of each tensor: its op; ops.size() for inputs
  std::vector<std::vector<std::size_t>> readers;  // of each tensor: ops, in order
};
PlannedGraph plan_graph(const Model& model, const Plan& plan);

// What one device holds of the tensors and weights.
class OpSharding {
 public:
  OpSharding(const PlannedGraph& planned, const Plan& plan, const Placement& placement)
      : planned_(planned), plan_(plan), placement_(placement) {}

  // Of a dimension, as the work of an op is split.
  Share share(std::size_t op, DimId dim) const;
  bool is_split(std::size_t op, DimId dim) const;
  // A tensor is split as its producer leaves it, an input of the model as its readers want it.
  std::vector<std::int64_t> sizes(TensorId tensor) const;
  std::vector<GlobalExtent> place(TensorId tensor) const;
  // As the work of an op splits it: before the op's result is scattered, or after its input has
  // been gathered.
  std::vector<std::int64_t> work_sizes(std::size_t op, TensorId tensor) const;
  bool is_split_tensor(TensorId tensor, DimId dim) const;
  // Whether the op's first input is gathered along the sequence for it.
  bool gathers(std::size_t op) const;
  // Whether the op's result is a sum over devices of which each gets a part of the sequence.
  bool scatters(std::size_t op) const;
  // Whether devices along tp each have a part of the weight's gradient to be added: the op splits
  // rows that share the weight.
  bool gives_partial_gradient(std::size_t op, WeightId weight) const;
  // A weight is split as its reader needs it.
  std::vector<std::int64_t> weight_sizes(std::size_t op, WeightId weight) const;
  std::vector<GlobalExtent> weight_place(std::size_t op, WeightId weight) const;

 private:
  Share tensor_share(TensorId tensor, DimId dim) const;
  std::int64_t whole(DimId dim) const;

  const PlannedGraph& planned_;
  const Plan& plan_;
  const Placement& placement_;
};

}  // namespace meshwright

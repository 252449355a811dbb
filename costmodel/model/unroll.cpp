#include "costmodel/model/model.h"

namespace meshwright {
namespace {

class Unroller {
 public:
  explicit Unroller(const Model& model) : model_(model) {
    graph_.name = model.name;
    graph_.notes = model.notes;
    graph_.longest_sequence = model.longest_sequence;
    graph_.dims = model.dims;
  }

  OpGraph unroll() {
    for (const Tensor& input : model_.inputs) {
      graph_.inputs.push_back(add_tensor(input));
    }
    for (const Weight& weight : model_.shared_weights) {
      graph_.weights.push_back({weight.names.front(), weight.dims, weight.frozen});
    }
    for (const Block& block : model_.blocks) {
      std::vector<TensorId> tensors;  // of the last repetition, by the block's ids
      for (std::int64_t r = 0; r < block.count; ++r) tensors = add_repetition(block, r, tensors);
      last_.push_back(std::move(tensors));
    }
    return std::move(graph_);
  }

 private:
  TensorId add_tensor(Tensor tensor) {
    graph_.tensors.push_back(std::move(tensor));
    return TensorId(graph_.tensors.size() - 1);
  }

  TensorId outer(const OuterTensor& place) const {
    if (!place.block) return graph_.inputs[place.tensor.index()];
    return last_[*place.block][place.tensor.index()];
  }

  std::vector<TensorId> add_repetition(const Block& block, std::int64_t r,
                                       const std::vector<TensorId>& before) {
    std::vector<TensorId> tensors;
    for (const BlockInput& input : block.inputs) {
      tensors.push_back(r > 0 && input.carried ? before[input.carried->index()]
                                               : outer(input.source));
    }
    for (std::size_t t = block.inputs.size(); t < block.tensors.size(); ++t) {
      tensors.push_back(add_tensor(block.tensors[t]));
    }
    const std::size_t first_weight = graph_.weights.size();
    for (const Weight& weight : block.weights) {
      graph_.weights.push_back(
          {weight.names[static_cast<std::size_t>(r)], weight.dims, weight.frozen});
    }
    for (const Op& op : block.ops) {
      GraphOp flat{.kind = op.kind,
                   .name = op.names[static_cast<std::size_t>(r)],
                   .attributes = op.attributes};
      for (const TensorId id : op.inputs) flat.inputs.push_back(tensors[id.index()]);
      for (const TensorId id : op.outputs) flat.outputs.push_back(tensors[id.index()]);
      for (const WeightUse& use : op.weights) {
        flat.weights.push_back(use.shared ? use.id : WeightId(first_weight + use.id.index()));
      }
      graph_.ops.push_back(std::move(flat));
    }
    return tensors;
  }

  const Model& model_;
  OpGraph graph_;
  std::vector<std::vector<TensorId>> last_;  // by block: its last repetition's tensors
};

}  // namespace

OpGraph unroll(const Model& model) { return Unroller(model).unroll(); }

}  // namespace meshwright

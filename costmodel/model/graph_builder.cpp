#include "costmodel/model/graph_builder.h"

#include <cassert>

namespace meshwright {

std::vector<DimId> joined(std::vector<DimId> a, const std::vector<DimId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

GraphBuilder::GraphBuilder(std::string name) {
  graph_.name = std::move(name);
  graph_.dims.push_back({"batch", DimRole::Batch, 1});
  graph_.dims.push_back({"sequence", DimRole::Sequence, 1});
}

DimId GraphBuilder::dim(const std::string& name, std::int64_t size) {
  for (std::size_t i = 0; i < graph_.dims.size(); ++i) {
    if (graph_.dims[i].name != name) continue;
    assert(graph_.dims[i].size == size);
    return DimId(i);
  }
  graph_.dims.push_back({name, DimRole::Fixed, size});
  return DimId(graph_.dims.size() - 1);
}

DimId GraphBuilder::sequence_dim(const std::string& name) {
  const DimId id = dim(name, 1);
  graph_.dims[id.index()].role = DimRole::Sequence;
  return id;
}

TensorId GraphBuilder::add_tensor(Tensor tensor) {
  graph_.tensors.push_back(std::move(tensor));
  return TensorId(graph_.tensors.size() - 1);
}

TensorId GraphBuilder::input(const std::string& name, std::vector<DimId> dims, Element element) {
  const TensorId id = add_tensor({name, std::move(dims), element});
  graph_.inputs.push_back(id);
  return id;
}

WeightId GraphBuilder::weight(const std::string& name, std::vector<DimId> dims) {
  graph_.weights.push_back({name, std::move(dims)});
  return WeightId(graph_.weights.size() - 1);
}

TensorId GraphBuilder::op(OpKind kind, const std::string& name, std::vector<TensorId> inputs,
                          std::vector<WeightId> weights, std::vector<DimId> result,
                          OpAttributes attributes) {
  const TensorId output = add_tensor({name, std::move(result)});
  graph_.ops.push_back(
      {kind, name, std::move(inputs), std::move(weights), {output}, std::move(attributes)});
  return output;
}

std::vector<TensorId> GraphBuilder::op_with_outputs(OpKind kind, const std::string& name,
                                                    std::vector<TensorId> inputs,
                                                    std::vector<Tensor> outputs,
                                                    OpAttributes attributes,
                                                    std::vector<WeightId> weights) {
  std::vector<TensorId> ids;
  for (Tensor& tensor : outputs) ids.push_back(add_tensor(std::move(tensor)));
  graph_.ops.push_back(
      {kind, name, std::move(inputs), std::move(weights), ids, std::move(attributes)});
  return ids;
}

TensorId GraphBuilder::embedding(const std::string& name, TensorId index, WeightId table) {
  const auto& table_dims = graph_.weights[table.index()].dims;
  return op(OpKind::Embedding, name, {index}, {table},
            joined(dims_of(index), {table_dims.begin() + 1, table_dims.end()}), {});
}

TensorId GraphBuilder::linear(const std::string& name, TensorId x, const LinearWeights& weights,
                              std::vector<DimId> result) {
  std::vector<WeightId> ids = {weights.weight};
  if (weights.bias) ids.push_back(*weights.bias);
  return op(OpKind::Matmul, name, {x}, std::move(ids), std::move(result), {});
}

TensorId GraphBuilder::dense(const std::string& name, TensorId x, const std::string& weight_name,
                             const std::vector<DimId>& in, const std::vector<DimId>& out,
                             bool bias) {
  LinearWeights weights{weight(weight_name + ".weight", joined(out, in)), std::nullopt};
  if (bias) weights.bias = weight(weight_name + ".bias", out);
  std::vector<DimId> result = dims_of(x);
  result.resize(result.size() - in.size());
  return linear(name, x, weights, joined(std::move(result), out));
}

TensorId GraphBuilder::norm(OpKind kind, const std::string& name, TensorId x,
                            const std::string& weight_name, const std::vector<DimId>& over,
                            const NormAttributes& attributes) {
  std::vector<WeightId> weights = {weight(weight_name + ".weight", over)};
  if (kind == OpKind::LayerNorm) weights.push_back(weight(weight_name + ".bias", over));
  return op(kind, name, {x}, std::move(weights), dims_of(x), attributes);
}

TensorId GraphBuilder::elementwise(OpKind kind, const std::string& name, TensorId x,
                                   OpAttributes attributes) {
  return op(kind, name, {x}, {}, dims_of(x), std::move(attributes));
}

TensorId GraphBuilder::dropout(const std::string& name, TensorId x, double probability) {
  if (probability == 0) return x;
  return elementwise(OpKind::Dropout, name, x, DropoutAttributes{probability});
}

TensorId GraphBuilder::add(const std::string& name, TensorId a, TensorId b) {
  return op(OpKind::Add, name, {a, b}, {}, dims_of(a), {});
}

TensorId GraphBuilder::gated(const std::string& name, Function function, TensorId gate,
                             TensorId x) {
  return op(OpKind::GatedActivation, name, {gate, x}, {}, dims_of(x), FunctionAttributes{function});
}

const std::vector<DimId>& GraphBuilder::dims_of(TensorId tensor) const {
  return graph_.tensors[tensor.index()].dims;
}

const std::vector<DimId>& GraphBuilder::dims_of_weight(WeightId weight) const {
  return graph_.weights[weight.index()].dims;
}

std::int64_t GraphBuilder::size_of(DimId dim) const { return graph_.dims[dim.index()].size; }

void GraphBuilder::limit_sequence(std::int64_t longest) { graph_.longest_sequence = longest; }

OpGraph GraphBuilder::finish(const std::string& source) {
  check_graph(graph_, source);
  return with_gradients(std::move(graph_));
}

}  // namespace meshwright

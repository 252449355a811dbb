#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/model/op_graph.h"

namespace meshwright {

std::vector<DimId> joined(std::vector<DimId> a, const std::vector<DimId>& b);

// A weight and, where the layer has one, its bias.
struct LinearWeights {
  WeightId weight;
  std::optional<WeightId> bias;
};

// Writes an OpGraph op by op. Every op function appends one op and returns what it produces.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);

  DimId batch() const { return DimId(0); }
  DimId sequence() const { return DimId(1); }
  // The dimension of that name, added on first use. A name has one size.
  DimId dim(const std::string& name, std::int64_t size);
  DimId sequence_dim(const std::string& name);

  TensorId input(const std::string& name, std::vector<DimId> dims, Element element);
  WeightId weight(const std::string& name, std::vector<DimId> dims);

  TensorId op(OpKind kind, const std::string& name, std::vector<TensorId> inputs,
              std::vector<WeightId> weights, std::vector<DimId> result, OpAttributes attributes);
  std::vector<TensorId> op_with_outputs(OpKind kind, const std::string& name,
                                        std::vector<TensorId> inputs, std::vector<Tensor> outputs,
                                        OpAttributes attributes,
                                        std::vector<WeightId> weights = {});

  TensorId embedding(const std::string& name, TensorId index, WeightId table);
  TensorId linear(const std::string& name, TensorId x, const LinearWeights& weights,
                  std::vector<DimId> result);
  // Adds the weights [out.., in..] of the name, and bias [out..] if wanted. `in` are the last
  // dimensions of `x`; `out` take their place.
  TensorId dense(const std::string& name, TensorId x, const std::string& weight,
                 const std::vector<DimId>& in, const std::vector<DimId>& out, bool bias);
  // Adds the gain of the name, and for LayerNorm a bias.
  TensorId norm(OpKind kind, const std::string& name, TensorId x, const std::string& weight,
                const std::vector<DimId>& over, const NormAttributes& attributes);
  // Same dimensions in and out.
  TensorId elementwise(OpKind kind, const std::string& name, TensorId x,
                       OpAttributes attributes = {});
  TensorId dropout(const std::string& name, TensorId x, double probability);
  TensorId add(const std::string& name, TensorId a, TensorId b);
  TensorId gated(const std::string& name, Function function, TensorId gate, TensorId x);

  const std::vector<DimId>& dims_of(TensorId tensor) const;
  const std::vector<DimId>& dims_of_weight(WeightId weight) const;
  std::int64_t size_of(DimId dim) const;
  void limit_sequence(std::int64_t longest);
  // Checked and with gradients derived.
  OpGraph finish(const std::string& source);

 private:
  TensorId add_tensor(Tensor tensor);
  OpGraph graph_;
};

}  // namespace meshwright

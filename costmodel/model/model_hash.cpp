#include "costmodel/model/model_hash.h"

#include "costmodel/base/hash.h"

namespace meshwright {
namespace {

// Every struct is taken apart whole, so that a field that is added to one does not compile here
// until it is hashed.

void add(Hash& hash, const Dim& dim) {
  const auto& [name, role, size] = dim;
  hash.add(name, role, size);
}

void add(Hash& hash, const Tensor& tensor) {
  const auto& [name, dims, element, needs_gradient] = tensor;
  hash.add(name, dims, element, needs_gradient);
}

void add(Hash& hash, const Weight& weight) {
  const auto& [names, dims, frozen] = weight;
  hash.add(names, dims, frozen);
}

struct AttributeHash {
  Hash& hash;

  void operator()(std::monostate) const {}
  void operator()(const NormAttributes& attributes) const {
    const auto& [epsilon, gain_plus_one] = attributes;
    hash.add(epsilon, gain_plus_one);
  }
  void operator()(const RopeAttributes& attributes) const {
    const auto& [theta, rotated, first, neighbours, scaling, factor, low_factor, high_factor,
                 original, attention_factor] = attributes;
    hash.add(theta, rotated, first, neighbours, scaling, factor, low_factor, high_factor, original,
             attention_factor);
  }
  void operator()(const AttentionAttributes& attributes) const {
    const auto& [causal, alibi, window, scale, dropout] = attributes;
    hash.add(causal, alibi, window, scale, dropout);
  }
  void operator()(const FunctionAttributes& attributes) const {
    const auto& [function] = attributes;
    hash.add(function);
  }
  void operator()(const ScaleAttributes& attributes) const {
    const auto& [factor] = attributes;
    hash.add(factor);
  }
  void operator()(const DropoutAttributes& attributes) const {
    const auto& [probability] = attributes;
    hash.add(probability);
  }
  void operator()(const AxisAttributes& attributes) const {
    const auto& [dim] = attributes;
    hash.add(dim);
  }
  void operator()(const RouterAttributes& attributes) const {
    const auto& [sigmoid, renormalize, groups, chosen_groups, factor, balance, bias_rate] =
        attributes;
    hash.add(sigmoid, renormalize, groups, chosen_groups, factor);
    if (balance != 0 || bias_rate != 0) hash.add(balance, bias_rate);
  }
  void operator()(const GenericAttributes& attributes) const {
    const auto& [what] = attributes;
    hash.add(what);
  }
};

template <class T>
void add(Hash& hash, const std::vector<T>& list);

void add(Hash& hash, const WeightUse& use) {
  const auto& [shared, id] = use;
  hash.add(shared, id);
}

void add(Hash& hash, const Op& op) {
  const auto& [kind, name, names, inputs, weights, outputs, attributes] = op;
  hash.add(kind, name, names, inputs, outputs, attributes.index());
  add(hash, weights);
  std::visit(AttributeHash{hash}, attributes);
}

void add(Hash& hash, const BlockInput& input) {
  const auto& [source, carried] = input;
  const auto& [block, tensor] = source;
  hash.add(block, tensor, carried);
}

void add(Hash& hash, const Block& block) {
  const auto& [name, count, tensors, inputs, weights, ops] = block;
  hash.add(name, count);
  add(hash, tensors);
  add(hash, inputs);
  add(hash, weights);
  add(hash, ops);
}

template <class T>
void add(Hash& hash, const std::vector<T>& list) {
  hash.add(list.size());
  for (const T& entry : list) add(hash, entry);
}

}  // namespace

std::string hash_of(const Model& model) {
  const auto& [name, notes, longest_sequence, dims, inputs, shared_weights, blocks, old] = model;
  Hash hash;
  hash.add(name, longest_sequence);
  add(hash, dims);
  add(hash, inputs);
  add(hash, shared_weights);
  add(hash, blocks);
  return hash.text();
}

}  // namespace meshwright

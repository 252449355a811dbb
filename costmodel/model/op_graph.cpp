#include "costmodel/model/op_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/checked.h"
#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

using Dims = std::vector<DimId>;

bool contains(const Dims& dims, DimId dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

bool subset(const Dims& part, const Dims& whole) {
  return std::all_of(part.begin(), part.end(), [&](DimId d) { return contains(whole, d); });
}

Dims joined(const Dims& a, const Dims& b) {
  Dims all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

Dims without(Dims dims, std::size_t place) {
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(place));
  return dims;
}

Dims without_last(const Dims& dims) { return without(dims, dims.size() - 1); }

// Least and most operands of a kind.
struct Operands {
  std::size_t least_inputs, most_inputs, least_weights, most_weights, outputs;
};

Operands operands_of(OpKind kind) {
  switch (kind) {
    case OpKind::Embedding:
      return {1, 1, 1, 1, 1};
    case OpKind::RelativeBias:
      return {0, 0, 1, 1, 1};
    case OpKind::Matmul:
      return {1, 1, 1, 2, 1};
    case OpKind::ExpertMatmul:
      return {2, 2, 1, 2, 1};
    case OpKind::LayerNorm:
      return {1, 1, 1, 2, 1};
    case OpKind::RmsNorm:
      return {1, 1, 1, 1, 1};
    case OpKind::Rope:
    case OpKind::Activation:
    case OpKind::Scale:
    case OpKind::Dropout:
    case OpKind::SelectFirst:
      return {1, 1, 0, 0, 1};
    case OpKind::Attention:
      return {3, 4, 0, 0, 1};
    case OpKind::GatedActivation:
    case OpKind::Dispatch:
    case OpKind::Combine:
    case OpKind::CrossEntropy:
      return {2, 2, 0, 0, 1};
    case OpKind::Add:
    case OpKind::Concat:
      return {1, 2, 0, 1, 1};
    case OpKind::Split:
      return {1, 1, 0, 0, 16};
    case OpKind::Router:
      return {1, 1, 0, 0, 2};
    case OpKind::Generic:
      return {0, 64, 0, 64, 64};
  }
  return {};
}

// Checks one op; every function returns what is wrong, empty if nothing is.
class OpCheck {
 public:
  OpCheck(const OpGraph& graph, const GraphOp& op) : graph_(graph), op_(op) {}

  std::string problem() const {
    const Operands want = operands_of(op_.kind);
    if (op_.inputs.size() < want.least_inputs || op_.inputs.size() > want.most_inputs) {
      return count_problem("inputs", op_.inputs.size(), want.least_inputs, want.most_inputs);
    }
    if (op_.weights.size() < want.least_weights || op_.weights.size() > want.most_weights) {
      return count_problem("weights", op_.weights.size(), want.least_weights, want.most_weights);
    }
    const bool many = op_.kind == OpKind::Generic || op_.kind == OpKind::Split;
    if (op_.outputs.empty() || op_.outputs.size() > want.outputs ||
        (!many && op_.outputs.size() != want.outputs)) {
      return count_problem("outputs", op_.outputs.size(), many ? 1 : want.outputs, want.outputs);
    }
    return dims_problem();
  }

 private:
  static std::string count_problem(std::string_view what, std::size_t found, std::size_t least,
                                   std::size_t most) {
    if (least == most) return fmt::format("expected {} {}, found {}", most, what, found);
    return fmt::format("expected {} to {} {}, found {}", least, most, what, found);
  }

  const Dims& in(std::size_t i) const { return graph_.tensors[op_.inputs[i].index()].dims; }
  const Dims& weight(std::size_t i) const { return graph_.weights[op_.weights[i].index()].dims; }
  const Dims& out(std::size_t i = 0) const { return graph_.tensors[op_.outputs[i].index()].dims; }
  bool is_index(TensorId id) const { return graph_.tensors[id.index()].element == Element::Index; }

  std::string dims_problem() const {
    switch (op_.kind) {
      case OpKind::Embedding:
        return embedding();
      case OpKind::RelativeBias:
        if (out().size() == 3 && weight(0).size() == 2 && out()[0] == weight(0)[1]) return "";
        return "the output must be [heads, queries, keys] with the heads of the table";
      case OpKind::Matmul:
        return matmul({});
      case OpKind::ExpertMatmul:
        return expert_matmul();
      case OpKind::LayerNorm:
      case OpKind::RmsNorm:
        return norm();
      case OpKind::Rope:
        return rope();
      case OpKind::Activation:
      case OpKind::Scale:
      case OpKind::Dropout:
        return same_dims();
      case OpKind::GatedActivation:
        if (out() == in(1) && subset(in(0), in(1))) return "";
        return "the gate's dimensions must be among those of the second input and of the output";
      case OpKind::Add:
        return add();
      case OpKind::Attention:
        return attention();
      case OpKind::Split:
        return split();
      case OpKind::Concat:
        return concat();
      case OpKind::SelectFirst:
        if (in(0).size() >= 2 && out() == without(in(0), 1)) return "";
        return "the output must be the input without its second dimension";
      case OpKind::Router:
        return router();
      case OpKind::Dispatch:
        if (is_index(op_.inputs[1]) && !in(0).empty() && out() == joined(in(1), {in(0).back()})) {
          return "";
        }
        return "the output must have the dimensions of the index and the last of the input";
      case OpKind::Combine:
        if (in(0).size() >= 2 && without_last(in(0)) == in(1) &&
            out() == without(in(0), in(0).size() - 2)) {
          return "";
        }
        return "the share must have all dimensions of the input but the last, the output all but "
               "the choices";
      case OpKind::CrossEntropy:
        if (is_index(op_.inputs[1]) && !in(0).empty() && without_last(in(0)) == in(1) &&
            out().empty()) {
          return "";
        }
        return "the labels must be an index over all dimensions of the logits but the last";
      case OpKind::Generic:
        return "";
    }
    return "";
  }

  std::string same_dims() const {
    return out() == in(0) ? "" : "the output must have the dimensions of the input";
  }

  std::string embedding() const {
    if (!is_index(op_.inputs[0])) return "the input must be an index";
    if (!weight(0).empty() && out() == joined(in(0), without(weight(0), 0))) return "";
    return "the output must have the dimensions of the index and of a row of the table";
  }

  std::string matmul(const Dims& chosen) const {
    const auto sum_over = [&](DimId d) { return contains(weight(0), d) && !contains(out(), d); };
    if (!subset(out(), joined(in(0), weight(0)))) {
      return "every dimension of the output must be one of the input or of the weight";
    }
    if (!subset(weight(0), joined(joined(in(0), out()), chosen))) {
      return "every dimension of the weight must be one of the input or of the output";
    }
    if (std::none_of(in(0).begin(), in(0).end(), sum_over)) {
      return "input and weight must share a dimension that the output lacks";
    }
    if (!std::all_of(in(0).begin(), in(0).end(),
                     [&](DimId d) { return contains(out(), d) || contains(weight(0), d); })) {
      return "every dimension of the input must be one of the output or of the weight";
    }
    if (op_.weights.size() == 2 && !subset(weight(1), joined(out(), chosen))) {
      return "the bias must have dimensions of the output";
    }
    return "";
  }

  std::string expert_matmul() const {
    if (!is_index(op_.inputs[1]) || in(1).empty() || !subset(in(1), in(0))) {
      return "the second input must be an index over dimensions of the first";
    }
    if (!is_fixed(in(1).back())) return "the last dimension of the index must have a fixed size";
    if (weight(0).empty() || contains(in(0), weight(0)[0]) || contains(out(), weight(0)[0])) {
      return "the experts must be a dimension of the weight alone";
    }
    return matmul({weight(0)[0]});
  }

  std::string norm() const {
    if (!subset(weight(0), in(0))) return "the gain must have dimensions of the input";
    if (op_.weights.size() == 2 && weight(1) != weight(0)) {
      return "the bias must have the dimensions of the gain";
    }
    return same_dims();
  }

  std::string rope() const {
    const std::int64_t rotated = std::get<RopeAttributes>(op_.attributes).rotated;
    if (in(0).empty() || !is_fixed(in(0).back())) {
      return "the last dimension of the input must have a fixed size";
    }
    if (in(0) == out() && rotated > size_of(in(0).back())) {
      return fmt::format("{} of {} entries cannot be rotated", rotated, size_of(in(0).back()));
    }
    return same_dims();
  }

  std::string add() const {
    if (op_.inputs.size() + op_.weights.size() != 2) return "expected two operands";
    Dims all = op_.weights.empty() ? Dims{} : weight(0);
    for (std::size_t i = 0; i < op_.inputs.size(); ++i) all = joined(all, in(i));
    if (!subset(all, out())) return "every operand's dimensions must be among the output's";
    if (!subset(out(), all)) return "every dimension of the output must be one of an operand";
    return "";
  }

  std::string attention() const {
    const Dims &q = in(0), &k = in(1), &v = in(2);
    if (q.size() < 3 || k.size() < 3 || v.size() != k.size() || q.size() < k.size()) {
      return "queries, keys and values must be [batch, sequence, heads.., size]";
    }
    if (q[0] != k[0] || k[0] != v[0] || k[1] != v[1] || q.back() != k.back()) {
      return "queries, keys and values must agree in batch, sequence and size";
    }
    if (!std::equal(k.begin() + 2, k.end() - 1, v.begin() + 2, v.end() - 1) ||
        !std::equal(k.begin() + 2, k.end() - 1, q.begin() + 2)) {
      return "the heads of keys and values must be the first heads' dimensions of the queries";
    }
    Dims want = q;
    want.back() = v.back();
    return out() == want ? "" : "the output must be the queries' shape with the values' size";
  }

  std::int64_t size_of(DimId dim) const { return graph_.dims[dim.index()].size; }
  bool is_fixed(DimId dim) const { return graph_.dims[dim.index()].role == DimRole::Fixed; }

  // How much of `axis` a piece with these dimensions takes, if it otherwise has only dimensions
  // of `whole`.
  std::optional<std::int64_t> share_of_axis(const Dims& piece, const Dims& whole,
                                            DimId axis) const {
    if (contains(piece, axis)) return std::nullopt;
    std::optional<std::int64_t> share;
    for (const DimId dim : piece) {
      if (contains(whole, dim)) continue;
      if (share || !is_fixed(dim)) return std::nullopt;
      share = size_of(dim);
    }
    return share.value_or(1);
  }

  std::string split() const {
    const DimId axis = std::get<AxisAttributes>(op_.attributes).dim;
    if (!contains(in(0), axis)) return "the dimension that is cut is not the input's";
    if (!is_fixed(axis)) return "the dimension that is cut must have a fixed size";
    std::int64_t total = 0;
    for (std::size_t i = 0; i < op_.outputs.size(); ++i) {
      const auto share = share_of_axis(out(i), in(0), axis);
      if (!share || !subset(in(0), joined(out(i), {axis}))) {
        return "a piece must have the input's dimensions, with another for the one cut";
      }
      total += *share;
    }
    return total == size_of(axis) ? "" : pieces_problem(total, axis);
  }

  std::string concat() const {
    const DimId axis = std::get<AxisAttributes>(op_.attributes).dim;
    if (op_.inputs.size() + op_.weights.size() != 2) return "expected two operands";
    if (!contains(out(), axis)) return "the dimension that is joined is not the output's";
    if (!is_fixed(axis)) return "the dimension that is joined must have a fixed size";
    std::int64_t total = 0;
    for (std::size_t i = 0; i < op_.inputs.size() + op_.weights.size(); ++i) {
      const auto share = share_of_axis(i < op_.inputs.size() ? in(i) : weight(0), out(), axis);
      if (!share) return "an operand must have the output's dimensions, with another for the axis";
      total += *share;
    }
    return total == size_of(axis) ? "" : pieces_problem(total, axis);
  }

  std::string pieces_problem(std::int64_t total, DimId axis) const {
    return fmt::format("the pieces add up to {}, but {} is {}", total,
                       printable(graph_.dims[axis.index()].name), size_of(axis));
  }

  std::string router() const {
    if (!is_index(op_.outputs[1])) return "the second output must be an index";
    if (in(0).empty() || out(0) != out(1) || out(0).size() != in(0).size() ||
        without_last(out(0)) != without_last(in(0))) {
      return "the outputs must have the input's dimensions, with the choices for the experts";
    }
    if (!is_fixed(in(0).back()) || !is_fixed(out(0).back())) {
      return "experts and choices must have fixed sizes";
    }
    if (size_of(out(0).back()) > size_of(in(0).back())) {
      return fmt::format("{} experts cannot be chosen from {}", size_of(out(0).back()),
                         size_of(in(0).back()));
    }
    return "";
  }

  const OpGraph& graph_;
  const GraphOp& op_;
};

bool repeats_a_dim(Dims dims) {
  std::sort(dims.begin(), dims.end());
  return std::adjacent_find(dims.begin(), dims.end()) != dims.end();
}

std::int64_t elements_of(const OpGraph& graph, const GraphWeight& weight) {
  std::int64_t count = 1;
  for (const DimId dim : weight.dims) count = checked_multiply(count, graph.dims[dim.index()].size);
  return count;
}

}  // namespace

void check_graph(const OpGraph& graph, const std::string& source) {
  const auto fail = [&](std::string_view what, const std::string& name, std::string_view problem) {
    throw InputError(fmt::format("{}: {} {}: {}", source, what, printable(name), problem));
  };
  for (const Dim& dim : graph.dims) {
    if (dim.size < 1 || dim.size > kLargestDim) {
      fail("dimension", dim.name,
           fmt::format("expected a size from 1 to {}, found {}", kLargestDim, dim.size));
    }
  }
  for (const Tensor& tensor : graph.tensors) {
    if (repeats_a_dim(tensor.dims)) fail("tensor", tensor.name, "has a dimension twice");
  }
  std::int64_t parameters = 0;
  for (const GraphWeight& weight : graph.weights) {
    if (repeats_a_dim(weight.dims)) fail("weight", weight.name, "has a dimension twice");
    try {
      parameters = checked_add(parameters, elements_of(graph, weight));
    } catch (const InputError& error) {
      fail("weight", weight.name, error.what());
    }
  }
  std::vector<bool> written(graph.tensors.size(), false);
  for (const TensorId input : graph.inputs) written[input.index()] = true;
  for (const GraphOp& op : graph.ops) {
    for (const TensorId input : op.inputs) {
      if (!written[input.index()]) {
        fail("op", op.name,
             fmt::format("reads {} before any op has written it",
                         printable(graph.tensors[input.index()].name)));
      }
    }
    for (const TensorId output : op.outputs) {
      if (written[output.index()]) {
        fail("op", op.name,
             fmt::format("writes {}, which is written already",
                         printable(graph.tensors[output.index()].name)));
      }
      written[output.index()] = true;
    }
    const std::string problem = OpCheck(graph, op).problem();
    if (!problem.empty()) fail("op", op.name, problem);
  }
  if (graph.ops.empty()) throw InputError(fmt::format("{}: the graph has no ops", source));
}

OpGraph with_gradients(OpGraph graph) {
  for (Tensor& tensor : graph.tensors) tensor.needs_gradient = false;
  for (const GraphOp& op : graph.ops) {
    const bool trains = std::any_of(op.weights.begin(), op.weights.end(),
                                    [&](WeightId w) { return !graph.weights[w.index()].frozen; });
    const bool passes = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId t) {
      return graph.tensors[t.index()].needs_gradient;
    });
    for (const TensorId output : op.outputs) {
      Tensor& tensor = graph.tensors[output.index()];
      tensor.needs_gradient = (trains || passes) && tensor.element == Element::Real;
    }
  }
  return graph;
}

}  // namespace meshwright

#include "costmodel/model/check_op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "costmodel/base/input_error.h"
#include "costmodel/model/op_numbers.h"
#include "costmodel/model/operand_counts.h"

namespace meshwright {
namespace {

using Dims = std::vector<DimId>;

bool contains(const Dims& dims, DimId dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

bool subset(const Dims& part, const Dims& whole) {
  return std::all_of(part.begin(), part.end(), [&](DimId d) { return contains(whole, d); });
}

Dims both_dims(const Dims& a, const Dims& b) {
  Dims all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

Dims without(Dims dims, std::size_t place) {
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(place));
  return dims;
}

// The same dimensions in the same order, some of them left out.
bool is_part_of(const Dims& part, const Dims& whole) {
  auto next = part.begin();
  for (const DimId dim : whole) next += next != part.end() && *next == dim;
  return next == part.end();
}

bool ends_with(const Dims& dims, const Dims& end) {
  return end.size() <= dims.size() && std::equal(end.rbegin(), end.rend(), dims.rbegin());
}

Dims without_last(const Dims& dims) { return without(dims, dims.size() - 1); }

// Checks one op; every function returns what is wrong, empty if nothing is.
class OpCheck {
 public:
  OpCheck(const OpGraph& graph, const GraphOp& op) : graph_(graph), op_(op) {}

  std::string problem() const {
    if (const std::string problem = operand_count_problem(op_); !problem.empty()) return problem;
    for (const std::string& problem : {elements_problem(), dims_problem()}) {
      if (!problem.empty()) return problem;
    }
    return numbers_problem(op_.attributes);
  }

 private:
  const Dims& in(std::size_t i) const { return graph_.tensors[op_.inputs[i].index()].dims; }
  const Dims& weight(std::size_t i) const { return graph_.weights[op_.weights[i].index()].dims; }
  const Dims& out(std::size_t i = 0) const { return graph_.tensors[op_.outputs[i].index()].dims; }
  bool is_index(TensorId id) const { return graph_.tensors[id.index()].element == Element::Index; }

  // Everything is computed with real numbers but what chooses rows, experts and classes.
  std::string elements_problem() const {
    if (op_.kind == OpKind::Generic) return "";
    for (std::size_t i = 0; i < op_.inputs.size(); ++i) {
      const bool chooses = i == index_input(op_.kind);
      if (is_index(op_.inputs[i]) == chooses) continue;
      return fmt::format("{} must be {}", tensor_name(op_.inputs[i]),
                         chooses ? "an index" : "of real numbers, not an index");
    }
    for (std::size_t i = 0; i < op_.outputs.size(); ++i) {
      const bool chosen = op_.kind == OpKind::Router && i == 1;
      if (is_index(op_.outputs[i]) == chosen) continue;
      return fmt::format("the output {} must be {}", tensor_name(op_.outputs[i]),
                         chosen ? "an index" : "of real numbers, not an index");
    }
    return "";
  }

  static std::optional<std::size_t> index_input(OpKind kind) {
    switch (kind) {
      case OpKind::Embedding:
        return 0;
      case OpKind::ExpertMatmul:
      case OpKind::Dispatch:
      case OpKind::CrossEntropy:
        return 1;
      default:
        return std::nullopt;
    }
  }

  std::string tensor_name(TensorId id) const { return printable(graph_.tensors[id.index()].name); }

  // As a file writes them.
  std::string names_of(const Dims& dims) const {
    std::vector<std::string> names;
    for (const DimId dim : dims) names.push_back(printable(graph_.dims[dim.index()].name));
    return fmt::format("[{}]", fmt::join(names, ", "));
  }

  bool is_batch(DimId dim) const { return graph_.dims[dim.index()].role == DimRole::Batch; }

  // Samples are trained apart and in any grouping, so they cannot meet in an op.
  bool batch_elsewhere(const Dims& dims) const {
    return std::any_of(dims.begin() + 1, dims.end(), [&](DimId dim) { return is_batch(dim); });
  }

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
        if (out() == in(1) && is_part_of(in(0), in(1))) return "";
        return "the gate's dimensions must be among those of the second input, in their order, and "
               "the output must have all of them";
      case OpKind::Add:
        return add();
      case OpKind::Attention:
        return attention();
      case OpKind::Split:
        return split();
      case OpKind::Concat:
        return concat();
      case OpKind::SelectFirst:
        if (in(0).size() >= 2 && batch_elsewhere(in(0))) return "the batch must come first";
        if (in(0).size() >= 2 && out() == without(in(0), 1)) return "";
        return "the output must be the input without its second dimension";
      case OpKind::Router:
        return router();
      case OpKind::Dispatch:
        if (!in(0).empty() && out() == both_dims(in(1), {in(0).back()})) {
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
        if (in(0).empty() || without_last(in(0)) != in(1) || !out().empty()) {
          return "the labels must be an index over all dimensions of the logits but the last";
        }
        if (!is_fixed(in(0).back())) return "the classes must be a dimension of a fixed size";
        return std::ranges::any_of(in(1), [&](DimId dim) { return is_batch(dim); })
                   ? ""
                   : "the labels must have the batch: a loss is of samples";
      case OpKind::Generic:
        return "";
    }
    return "";
  }

  std::string same_dims() const {
    return out() == in(0) ? "" : "the output must have the dimensions of the input";
  }

  std::string embedding() const {
    if (!weight(0).empty() && out() == both_dims(in(0), without(weight(0), 0))) return "";
    return "the output must have the dimensions of the index and of a row of the table";
  }

  std::string matmul(const Dims& chosen) const {
    const auto sum_over = [&](DimId d) { return contains(weight(0), d) && !contains(out(), d); };
    if (!subset(out(), both_dims(in(0), weight(0)))) {
      return "every dimension of the output must be one of the input or of the weight";
    }
    if (!subset(weight(0), both_dims(both_dims(in(0), out()), chosen))) {
      return "every dimension of the weight must be one of the input or of the output";
    }
    if (std::none_of(in(0).begin(), in(0).end(), sum_over)) {
      return "input and weight must share a dimension that the output lacks";
    }
    if (!std::all_of(in(0).begin(), in(0).end(),
                     [&](DimId d) { return contains(out(), d) || contains(weight(0), d); })) {
      return "every dimension of the input must be one of the output or of the weight";
    }
    return matmul_order(chosen);
  }

  // The kernel multiplies a matrix by a matrix: rows of the input by columns of the weight, summed
  // over what stands last in the input.
  std::string matmul_order(const Dims& chosen) const {
    Dims rows, summed, columns;
    for (const DimId dim : in(0)) (contains(weight(0), dim) ? summed : rows).push_back(dim);
    for (const DimId dim : weight(0)) {
      if (!contains(in(0), dim) && !contains(chosen, dim)) columns.push_back(dim);
    }
    if (in(0) != both_dims(rows, summed)) {
      return fmt::format("the dimensions summed over must come last in the input: {}",
                         names_of(both_dims(rows, summed)));
    }
    if (out() != both_dims(rows, columns)) {
      return fmt::format("the output must be {}, the rows of the input and columns of the weight",
                         names_of(both_dims(rows, columns)));
    }
    const Dims stored = both_dims(chosen, both_dims(columns, summed));  // as PyTorch has it
    const Dims turned = both_dims(chosen, both_dims(summed, columns));
    if (weight(0) != stored && weight(0) != turned) {
      return fmt::format("the weight must be {}{}", names_of(stored),
                         columns.empty() ? "" : " or " + names_of(turned));
    }
    if (op_.weights.size() == 2 && weight(1) != both_dims(chosen, columns)) {
      return fmt::format("the bias must be {}", names_of(both_dims(chosen, columns)));
    }
    return "";
  }

  std::string expert_matmul() const {
    if (in(1).empty() || !subset(in(1), in(0))) {
      return "the second input must be an index over dimensions of the first";
    }
    if (!is_fixed(in(1).back())) return "the last dimension of the index must have a fixed size";
    if (weight(0).empty() || contains(in(0), weight(0)[0]) || contains(out(), weight(0)[0])) {
      return "the experts must be a dimension of the weight alone";
    }
    if (const std::string problem = chosen_problem(); !problem.empty()) return problem;
    return matmul({weight(0)[0]});
  }

  // An index of an expert that there is not would be read as one.
  std::string chosen_problem() const {
    for (const GraphOp& op : graph_.ops) {
      if (op.kind != OpKind::Router || std::ranges::count(op.outputs, op_.inputs[1]) == 0) continue;
      const Dims& scores = graph_.tensors[op.inputs[0].index()].dims;
      if (!scores.empty() && scores.back() == weight(0)[0]) return "";
      return fmt::format("{} chooses among {}, the weight has {} experts",
                         tensor_name(op_.inputs[1]), names_of({scores.back()}),
                         names_of({weight(0)[0]}));
    }
    return fmt::format("{} must be what a router chose", tensor_name(op_.inputs[1]));
  }

  std::string norm() const {
    if (weight(0).empty() || !ends_with(in(0), weight(0))) {
      return "the gain must have the last dimensions of the input";
    }
    if (op_.weights.size() == 2 && weight(1) != weight(0)) {
      return "the bias must have the dimensions of the gain";
    }
    return same_dims();
  }

  std::string rope() const {
    const auto& rope = std::get<RopeAttributes>(op_.attributes);
    if (in(0).size() < 3) return "the input must be [batch, sequence, .., size]";
    if (!is_fixed(in(0).back())) return "the last dimension of the input must have a fixed size";
    if (batch_elsewhere(in(0))) return "the batch must come first";
    if (in(0) == out() && rope.rotated > size_of(in(0).back()) - rope.first) {
      const std::string from = rope.first > 0 ? fmt::format(" from {} on", rope.first) : "";
      return fmt::format("{} of {} entries{} cannot be rotated", rope.rotated,
                         size_of(in(0).back()), from);
    }
    return same_dims();
  }

  std::string add() const {
    if (op_.inputs.size() + op_.weights.size() != 2) return "expected two operands";
    Dims all = op_.weights.empty() ? Dims{} : weight(0);
    for (std::size_t i = 0; i < op_.inputs.size(); ++i) all = both_dims(all, in(i));
    if (!subset(all, out())) return "every operand's dimensions must be among the output's";
    if (!subset(out(), all)) return "every dimension of the output must be one of an operand";
    return "";
  }

  std::string attention() const {
    const Dims &q = in(0), &k = in(1), &v = in(2);
    if (k.size() < 4 || v.size() != k.size() || q.size() < k.size()) {
      return "queries, keys and values must be [batch, sequence, heads.., size]";
    }
    if (q[0] != k[0] || k[0] != v[0] || k[1] != v[1] || q.back() != k.back()) {
      return "queries, keys and values must agree in batch, sequence and size";
    }
    if (!std::equal(k.begin() + 2, k.end() - 1, v.begin() + 2, v.end() - 1) ||
        !std::equal(k.begin() + 2, k.end() - 1, q.begin() + 2)) {
      return "the heads of keys and values must be the first heads' dimensions of the queries";
    }
    if (!is_fixed(q.back()) || !is_fixed(v.back())) return "a head's size must be fixed";
    if (batch_elsewhere(q) || batch_elsewhere(k)) return "the batch must come first";
    Dims want = q;
    want.back() = v.back();
    return out() == want ? "" : "the output must be the queries' shape with the values' size";
  }

  std::int64_t size_of(DimId dim) const { return graph_.dims[dim.index()].size; }
  bool is_fixed(DimId dim) const { return graph_.dims[dim.index()].role == DimRole::Fixed; }

  // How much of `axis` a piece with these dimensions takes, if they are some of those of `whole`
  // in their order, with another in the place of the axis, or none.
  std::optional<std::int64_t> share_of_axis(Dims piece, const Dims& whole, DimId axis) const {
    if (contains(piece, axis)) return std::nullopt;
    std::optional<std::int64_t> share;
    for (DimId& dim : piece) {
      if (contains(whole, dim)) continue;
      if (share || !is_fixed(dim)) return std::nullopt;
      share = size_of(dim);
      dim = axis;
    }
    if (!is_part_of(piece, whole)) return std::nullopt;
    return share.value_or(1);
  }

  std::string split() const {
    const DimId axis = std::get<AxisAttributes>(op_.attributes).dim;
    if (!contains(in(0), axis)) return "the dimension that is cut is not the input's";
    if (!is_fixed(axis)) return "the dimension that is cut must have a fixed size";
    std::int64_t total = 0;
    for (std::size_t i = 0; i < op_.outputs.size(); ++i) {
      const auto share = share_of_axis(out(i), in(0), axis);
      if (!share || !subset(in(0), both_dims(out(i), {axis}))) {
        return "a piece must have the input's dimensions, with another for the one cut";
      }
      total += *share;
    }
    return total == size_of(axis) ? "" : pieces_problem(total, axis);
  }

  std::string concat() const {
    const DimId axis = std::get<AxisAttributes>(op_.attributes).dim;
    if (op_.inputs.size() + op_.weights.size() > 2) return "expected one or two operands";
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
    const bool has_bias = !op_.weights.empty();
    if (has_bias && weight(0) != Dims{in(0).back()}) {
      return "the bias must have a number for every expert";
    }
    const bool moves = std::get<RouterAttributes>(op_.attributes).bias_rate != 0;
    return moves && !has_bias ? "bias_rate: there is no bias to move" : "";
  }

  const OpGraph& graph_;
  const GraphOp& op_;
};

}  // namespace

std::string problem_of(const OpGraph& graph, const GraphOp& op) {
  return OpCheck(graph, op).problem();
}

}  // namespace meshwright

#include <fmt/format.h>

#include <algorithm>

#include "simulator/lowering/ops/product.h"

namespace meshwright {
namespace {

// What the parts of a product are: of the input and of the matrix, along the dimension summed over.
class SummaParts {
 public:
  SummaParts(FragmentWriter& writer, std::size_t op)
      : writer_(writer),
        op_(op),
        input_(writer.steps(op, &OpRelayouts::inputs, 0).front()),
        matrix_(writer.steps(op, &OpRelayouts::weights, 0).front()),
        columns_(contracted(writer, op)) {}

  std::size_t count() const { return writer_.member_count(matrix_); }
  View input(std::size_t part, Phase phase = Phase::InputGradient) const {
    const GraphOp& entry = writer_.op(op_);
    return writer_.broadcast(input_, writer_.kept(entry.inputs[0]), writer_.kept_input(op_, 0),
                             part, entry.name + ".x", Purpose::Tensor, phase);
  }
  View matrix(std::size_t part) const {
    return writer_.broadcast(matrix_, writer_.kept_layout(op_, 0), writer_.kept_weight(op_, 0),
                             part, writer_.op(op_).name + ".weight", Purpose::Weights);
  }
  // Entries of the sum, of the first and of all of a part.
  ShardRange entries(std::size_t part) const {
    const ShardRange range = writer_.range_at(matrix_, writer_.kept_layout(op_, 0), part);
    const auto& dims = writer_.dims(writer_.op(op_).inputs[0]);
    std::int64_t each = 1;  // of the dimensions behind the one that is cut
    for (std::size_t i = dims.size() - columns_ + 1; i < dims.size(); ++i) {
      each = checked_multiply(each, writer_.shards().whole(dims[i]));
    }
    return {range.start * each, range.size * each};
  }
  std::size_t columns() const { return columns_; }

 private:
  FragmentWriter& writer_;
  const std::size_t op_;
  const RelayoutStep &input_, &matrix_;
  const std::size_t columns_;
};

// A kernel of one part is called by it.
KernelDraft part_call(const GraphOp& op, Phase phase, std::size_t number) {
  KernelDraft call(KernelKind::Matmul, phase, op);
  call.kernel().name = fmt::format("{}.part{}", op.name, number);
  return call;
}

// Of a matrix, these rows or columns.
Operand slice_of(Operand matrix, std::size_t dim, const ShardRange& entries) {
  matrix.offset += entries.start * matrix.strides[dim];
  matrix.sizes[dim] = entries.size;
  return matrix;
}

Operand result_rows(const View& view, const SummaParts& parts, std::size_t input_dims) {
  return as_matrix(view.operand, view.operand.sizes.size() - (input_dims - parts.columns()));
}

}  // namespace

void forward_summa(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const SummaParts parts(writer, op);
  const FragmentWriter::Output y = writer.start_output(op);
  for (std::size_t part = 0; part < parts.count(); ++part) {
    const View matrix = parts.matrix(part), x = parts.input(part);
    const Operand shape = weight_matrix(writer, op, matrix);
    KernelDraft call = part_call(entry, Phase::Forward, part);
    call.kernel().accumulate = part > 0;
    call.read(x, as_matrix(x.operand, parts.columns())).read(matrix, shape);
    if (entry.weights.size() == 2 && part == 0) {
      const View bias = writer.weight(op, 1);
      call.read(bias, as_row(bias.operand));
    }
    writer.emit(call.write(y.computed, as_rows(y.computed.operand, shape.sizes[1])));
  }
  writer.finish_output(op, y);
}

// Each part gives its columns of the input's gradient and its rows of the matrix's; both are sums
// over devices then, which are scattered whole.
void backward_summa(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const SummaParts parts(writer, op);
  const View dy = writer.output_gradient(op);
  const Operand rows = result_rows(dy, parts, writer.dims(entry.inputs[0]).size());
  if (writer.needs_gradient(entry.inputs[0])) {
    const auto [dx, known] = writer.gradient_target(op, 0);
    const Operand in = as_matrix(dx.operand, parts.columns());
    for (std::size_t part = 0; part < parts.count(); ++part) {
      const View matrix = parts.matrix(part);
      KernelDraft call = part_call(entry, Phase::InputGradient, part);
      call.read(matrix, weight_matrix(writer, op, matrix)).read(dy, rows);
      const Operand own = slice_of(in, 1, parts.entries(part));
      if (known) {
        Operand before =
            slice_of(as_matrix(known->operand, parts.columns()), 1, parts.entries(part));
        call.kernel().has_addend = true;
        call.read(*known, before);
      }
      writer.emit(call.write(dx, own));
    }
    writer.set_gradient(op, 0, dx);
  }
  if (!writer.trains(op)) return;
  const View dw = writer.weight_gradient(op, 0);
  const Operand whole = weight_matrix(writer, op, dw);
  for (std::size_t part = 0; part < parts.count(); ++part) {
    const View x = parts.input(part, Phase::WeightGradient);
    KernelDraft call = part_call(entry, Phase::WeightGradient, part);
    call.read(x, as_matrix(x.operand, parts.columns())).read(dy, rows);
    call.write(dw, slice_of(whole, 0, parts.entries(part)));
    if (entry.weights.size() == 2 && part == 0) {
      const View db = writer.weight_gradient(op, 1);
      call.write(db, as_row(db.operand));
    }
    writer.emit(call);
  }
  writer.keep_gradients(op);
}

std::optional<std::string> summa_refusal(const PlannedGraph& planned, std::size_t op) {
  const GraphOp& entry = planned.graph.ops[op];
  if (entry.kind != OpKind::Matmul) return "summa is for matrix products";
  const RelayoutSteps& inputs = planned.steps(op, &OpRelayouts::inputs, 0);
  const RelayoutSteps& weights = planned.steps(op, &OpRelayouts::weights, 0);
  const auto gathers = [](const RelayoutSteps& steps) {
    return steps.size() == 1 && steps[0].kind == RelayoutKind::AllGather;
  };
  const OpLayouts& layouts = planned.op(op).layouts;
  const bool both = gathers(inputs) && gathers(weights) && inputs[0].from == weights[0].from;
  if (!both || layouts.outputs[0].partial) {
    return "summa needs an input and a matrix that are gathered along the dimension summed over";
  }
  // Both are cut alike along it, and whole when they are read.
  const DimId dim = *inputs[0].from;
  const auto is_whole = [&](const Layout& layout) {
    const std::size_t at = position_of(layout, dim);
    return at < layout.dims.size() && layout.dims[at].sharding.axes.empty();
  };
  const auto& dims = planned.graph.tensors[entry.inputs[0].index()].dims;
  const auto& result = planned.graph.tensors[entry.outputs[0].index()].dims;
  const auto first =
      std::ranges::find_if(dims, [&](DimId one) { return std::ranges::count(result, one) == 0; });
  if (!is_whole(layouts.inputs[0]) || !is_whole(layouts.weights[0]) || first == dims.end() ||
      *first != dim) {
    return "summa needs the first dimension that is summed over to be whole in each product";
  }
  return std::nullopt;
}

}  // namespace meshwright

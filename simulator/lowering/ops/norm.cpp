#include "simulator/lowering/fragment_writer.h"
#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {
namespace {

KernelKind norm_kernel(const GraphOp& op) {
  return op.kind == OpKind::LayerNorm ? KernelKind::LayerNorm : KernelKind::RmsNorm;
}

Operand rows_of(const FragmentWriter& writer, std::size_t op, const View& x) {
  return as_matrix(x.operand, writer.dims(writer.op(op).weights[0]).size());
}

// Each device has a part of every row: sums over whole rows.
bool shares_rows(const FragmentWriter& writer, std::size_t op) {
  return !writer.layouts(op).statistics.empty();
}

// Whole rows are as long as all entries that have a gain of their own; which of them a device has
// does not matter.
std::vector<DimPlace> row_place(const FragmentWriter& writer, std::size_t op,
                                const Extents& sizes) {
  std::int64_t length = 1;
  for (const DimId dim : writer.dims(writer.op(op).weights[0])) {
    length = checked_multiply(length, writer.shards().whole(dim));
  }
  return {{{{0, sizes[0]}}, sizes[0]}, {{{0, sizes[1]}}, length}};
}

View new_sums(FragmentWriter& writer, std::size_t op, std::int64_t rows) {
  return writer.new_view(writer.op(op).name + ".sums", {rows, 2}, BufferElement::Double,
                         Component::Workspace);
}

// Adds to a kernel what it needs of whole rows, from what every device has of them.
void read_sums(FragmentWriter& writer, std::size_t op, const View& sums, KernelDraft& call) {
  for (const SharedStatistics& statistics : writer.layouts(op).statistics) {
    writer.all_reduce(sums, statistics.axes);
  }
  call.read(sums);
  call.kernel().place = row_place(writer, op, call.kernel().operands[0].sizes);
}

void forward_norm(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const FragmentWriter::Output y = writer.start_output(op);
  const View x = writer.input(op, 0);
  const Operand shape = rows_of(writer, op, x);
  std::vector<FragmentWriter::Statistic> names;
  if (entry.kind == OpKind::LayerNorm) names.push_back({"mean", {shape.sizes[0]}});
  names.push_back({"scale", {shape.sizes[0]}});
  writer.keep(op, {.rows = shape.sizes[0]}, names);
  KernelDraft call(norm_kernel(entry), Phase::Forward, entry);
  call.read(x, shape);
  for (std::size_t i = 0; i < entry.weights.size(); ++i) {
    const View w = writer.weight(op, i);
    call.read(w, as_row(w.operand));
  }
  if (shares_rows(writer, op)) {
    const View sums = new_sums(writer, op, shape.sizes[0]);
    KernelDraft add(KernelKind::RowSums, Phase::Forward, entry);
    writer.emit(add.read(x, shape).write(sums));
    read_sums(writer, op, sums, call);
  }
  call.write(y.computed, rows_of(writer, op, y.computed));
  for (const View& kept : writer.statistics(op)) call.write(kept);
  writer.emit(call);
  writer.finish_output(op, y);
}

void backward_norm(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const View dy = writer.output_gradient(op);
  const View x = writer.input(op, 0);
  const Operand shape = rows_of(writer, op, x);
  const auto& kept_numbers = writer.statistics(op);
  if (writer.needs_gradient(entry.inputs[0])) {
    const View gain = writer.weight(op, 0);
    const auto [dx, known] = writer.gradient_target(op, 0);
    KernelDraft call(norm_kernel(entry), Phase::InputGradient, entry);
    call.read(x, shape).read(gain, as_row(gain.operand));
    for (const View& kept : kept_numbers) call.read(kept);
    const Operand gradient = rows_of(writer, op, dy), result = rows_of(writer, op, dx);
    call.read(dy, gradient);
    if (shares_rows(writer, op)) {
      const View sums = new_sums(writer, op, shape.sizes[0]);
      KernelDraft add(KernelKind::RowSums, Phase::InputGradient, entry);
      add.read(x, shape).read(gain, as_row(gain.operand));
      for (const View& kept : kept_numbers) add.read(kept);
      writer.emit(add.read(dy, gradient).write(sums));
      read_sums(writer, op, sums, call);
    }
    writer.emit(call.addend(known, result).write(dx, result));
    writer.set_gradient(op, 0, dx);
  }
  if (!writer.trains(op)) return;
  KernelDraft call(norm_kernel(entry), Phase::WeightGradient, entry);
  call.read(x, shape);
  for (const View& kept : kept_numbers) call.read(kept);
  call.read(dy, rows_of(writer, op, dy));
  for (std::size_t i = 0; i < entry.weights.size(); ++i) {
    const View dw = writer.weight_gradient(op, i);
    call.write(dw, as_row(dw.operand));
  }
  writer.emit_gradients(op, call);
}

std::size_t norm_row_dims(const OpGraph& graph, const GraphOp& op) {
  return graph.weights[op.weights[0].index()].dims.size();
}

std::optional<std::string> bias_refusal(const OpGraph&, const GraphOp& op) {
  if (op.weights.size() == 2) return std::nullopt;
  return "layer_norm without a bias";
}

}  // namespace

const OpLowering kNormLowering{
    .forward = forward_norm, .backward = backward_norm, .row_dims = norm_row_dims};
const OpLowering kLayerNormLowering{.forward = forward_norm,
                                    .backward = backward_norm,
                                    .row_dims = norm_row_dims,
                                    .form_refusal = bias_refusal};

}  // namespace meshwright

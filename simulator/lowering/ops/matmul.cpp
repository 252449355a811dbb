#include <algorithm>

#include "simulator/lowering/fragment_writer.h"
#include "simulator/lowering/ops/op_lowering.h"
#include "simulator/lowering/ops/product.h"

namespace meshwright {
namespace {

bool has_dim(const std::vector<DimId>& dims, DimId dim) {
  return std::ranges::count(dims, dim) > 0;
}

}  // namespace

Operand weight_matrix(const FragmentWriter& writer, std::size_t op, const View& view) {
  const GraphOp& entry = writer.op(op);
  const auto& dims = writer.dims(entry.weights[0]);
  const auto& result = writer.dims(entry.outputs[0]);
  const auto is_in = [&](DimId dim) { return !has_dim(result, dim); };
  const auto ins = static_cast<std::size_t>(std::ranges::count_if(dims, is_in));
  if (is_in(dims.front())) return as_matrix(view.operand, dims.size() - ins);
  const Operand stored = as_matrix(view.operand, ins);  // [out, in]
  return {.offset = stored.offset,
          .sizes = {stored.sizes[1], stored.sizes[0]},
          .strides = {1, stored.sizes[1]},
          .element = stored.element};
}

std::size_t contracted(const FragmentWriter& writer, std::size_t op) {
  const auto& y = writer.dims(writer.op(op).outputs[0]);
  return static_cast<std::size_t>(std::ranges::count_if(
      writer.dims(writer.op(op).inputs[0]), [&](DimId dim) { return !has_dim(y, dim); }));
}

namespace {

// The bias in the shape of a result that is kept cut otherwise than the work: its own part of it.
Operand part_of_bias(const FragmentWriter& writer, std::size_t op, const Operand& bias,
                     const View& y, const Layout& kept) {
  const Layout& own = writer.layouts(op).weights[1];
  Operand part{.offset = bias.offset, .sizes = y.operand.sizes, .strides = {}};
  part.element = bias.element;
  for (const DimLayout& dim : kept.dims) {
    const auto found = std::ranges::find(own.dims, dim.dim, &DimLayout::dim);
    const bool repeated = found == own.dims.end();
    const auto at = static_cast<std::size_t>(found - own.dims.begin());
    part.strides.push_back(repeated ? 0 : bias.strides[at]);
    if (repeated) continue;
    const std::int64_t start = writer.shards().range(dim).start;
    part.offset += (start - writer.shards().range(*found).start) * bias.strides[at];
  }
  return part;
}

// After the sum over devices, or it would be counted once for each of them. In place.
void add_bias(FragmentWriter& writer, std::size_t op, const View& y) {
  const View bias = writer.weight(op, 1);
  KernelDraft call(KernelKind::Add, Phase::Forward, writer.op(op));
  const Layout& kept = writer.kept(writer.op(op).outputs[0]);
  const std::int64_t columns = element_count(bias.operand);
  const bool whole = std::ranges::all_of(kept.dims, [&](const DimLayout& dim) {
    const auto& own = writer.layouts(op).weights[1].dims;
    const auto found = std::ranges::find(own, dim.dim, &DimLayout::dim);
    return found == own.end() || found->sharding == dim.sharding;
  });
  if (!whole) {
    writer.emit(call.read(y).read(bias, part_of_bias(writer, op, bias.operand, y, kept)).write(y));
    return;
  }
  const Operand shape = as_rows(y.operand, columns);
  Operand row = as_row(bias.operand);
  row.sizes = shape.sizes;
  row.strides = {0, 1};
  writer.emit(call.read(y, shape).read(bias, row).write(y, shape));
}

void forward_matmul(FragmentWriter& writer, std::size_t op) {
  if (writer.implementation(op) == Implementation::Summa) return forward_summa(writer, op);
  const GraphOp& entry = writer.op(op);
  const View matrix = writer.weight(op, 0);
  const FragmentWriter::Output y = writer.start_output(op);
  const View x = writer.input(op, 0);
  const Operand shape = weight_matrix(writer, op, matrix);
  const bool partial = writer.layouts(op).outputs[0].partial.has_value();
  KernelDraft call(KernelKind::Matmul, Phase::Forward, entry);
  call.read(x, as_matrix(x.operand, contracted(writer, op))).read(matrix, shape);
  if (entry.weights.size() == 2 && !partial) {
    const View bias = writer.weight(op, 1);
    call.read(bias, as_row(bias.operand));
  }
  writer.emit(call.write(y.computed, as_rows(y.computed.operand, shape.sizes[1])));
  writer.finish_output(op, y);
  if (entry.weights.size() == 2 && partial) add_bias(writer, op, y.kept);
}

void backward_matmul(FragmentWriter& writer, std::size_t op) {
  if (writer.implementation(op) == Implementation::Summa) return backward_summa(writer, op);
  const GraphOp& entry = writer.op(op);
  const View dy = writer.output_gradient(op);
  const std::size_t columns = contracted(writer, op);
  const Operand rows = as_matrix(
      dy.operand, dy.operand.sizes.size() - (writer.dims(entry.inputs[0]).size() - columns));
  if (writer.needs_gradient(entry.inputs[0])) {
    const View matrix = writer.weight(op, 0);
    const Operand shape = weight_matrix(writer, op, matrix);
    const auto [dx, known] = writer.gradient_target(op, 0);
    const Operand in = as_matrix(dx.operand, columns);
    KernelDraft call(KernelKind::Matmul, Phase::InputGradient, entry);
    call.read(matrix, shape).read(dy, rows).addend(known, in);
    writer.emit(call.write(dx, in));
    writer.set_gradient(op, 0, dx);
  }
  if (!writer.trains(op)) return;
  const View x = writer.input(op, 0, Phase::WeightGradient);
  const View dw = writer.weight_gradient(op, 0);
  KernelDraft call(KernelKind::Matmul, Phase::WeightGradient, entry);
  call.read(x, as_matrix(x.operand, columns))
      .read(dy, rows)
      .write(dw, weight_matrix(writer, op, dw));
  if (entry.weights.size() == 2) {
    const View db = writer.weight_gradient(op, 1);
    call.write(db, as_row(db.operand));
  }
  writer.emit_gradients(op, call);
}

}  // namespace

const OpLowering kMatmulLowering{.forward = forward_matmul, .backward = backward_matmul};

}  // namespace meshwright

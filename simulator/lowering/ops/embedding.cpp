#include "simulator/lowering/fragment_writer.h"
#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {
namespace {

std::size_t table_columns(const FragmentWriter& writer, std::size_t op) {
  return writer.dims(writer.op(op).weights[0]).size() - 1;
}

// Of the table that this device holds.
std::int64_t first_table_row(const FragmentWriter& writer, std::size_t op) {
  return writer.shards().range(writer.layouts(op).weights[0].dims[0]).start;
}

void forward_embedding(FragmentWriter& writer, std::size_t op) {
  const View table = writer.weight(op, 0);
  const FragmentWriter::Output y = writer.start_output(op);
  const View index = writer.input(op, 0);
  const std::size_t columns = table_columns(writer, op);
  KernelDraft call(KernelKind::Embedding, Phase::Forward, writer.op(op));
  call.kernel().first_row = first_table_row(writer, op);
  call.read(index, as_row(index.operand)).read(table, as_matrix(table.operand, columns));
  writer.emit(call.write(y.computed, as_matrix(y.computed.operand, columns)));
  writer.finish_output(op, y);
}

void backward_embedding(FragmentWriter& writer, std::size_t op) {
  const View dy = writer.output_gradient(op);
  const View index = writer.input(op, 0, Phase::WeightGradient);
  const View table = writer.weight_gradient(op, 0);
  const std::size_t columns = table_columns(writer, op);
  KernelDraft call(KernelKind::Embedding, Phase::WeightGradient, writer.op(op));
  call.kernel().first_row = first_table_row(writer, op);
  call.read(index, as_row(index.operand)).read(dy, as_matrix(dy.operand, columns));
  call.write(table, as_matrix(table.operand, columns));
  writer.emit_gradients(op, call);
}

}  // namespace

const OpLowering kEmbeddingLowering{.forward = forward_embedding, .backward = backward_embedding};

}  // namespace meshwright

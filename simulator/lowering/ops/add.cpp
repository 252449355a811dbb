#include "simulator/lowering/fragment_writer.h"
#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {
namespace {

// An operand that lacks dimensions of the result is repeated along them.
Operand broadcast(const FragmentWriter& writer, std::size_t op, std::size_t input) {
  return repeated(dense_operand(writer.shards().sizes(writer.layouts(op).inputs[input])),
                  writer.dims(writer.op(op).inputs[input]), writer.dims(writer.op(op).outputs[0]),
                  dense_operand(writer.shards().sizes(writer.layouts(op).outputs[0])));
}

void forward_add(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const FragmentWriter::Output y = writer.start_output(op);
  KernelDraft call(KernelKind::Add, Phase::Forward, entry);
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    call.read(writer.input(op, i), broadcast(writer, op, i));
  }
  writer.emit(call.write(y.computed));
  writer.finish_output(op, y);
}

// An operand of the result's shape has the result's gradient; one that was repeated has the sum.
void backward_add(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const View dy = writer.output_gradient(op);
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    if (!writer.needs_gradient(entry.inputs[i])) continue;
    if (writer.dims(entry.inputs[i]) == writer.dims(entry.outputs[0])) {
      writer.add_gradient(op, i, dy);
      continue;
    }
    const View dx = writer.repeated_target(op, i);
    writer.emit_sum(entry.inputs[i], dy, std::nullopt, dx, dy.operand, broadcast(writer, op, i));
    writer.add_gradient(op, i, dx);
  }
}

std::optional<std::string> add_form_refusal(const OpGraph&, const GraphOp& op) {
  if (op.inputs.size() == 2) return std::nullopt;
  return "adding a weight";
}

}  // namespace

const OpLowering kAddLowering{
    .forward = forward_add, .backward = backward_add, .form_refusal = add_form_refusal};

}  // namespace meshwright

#include <fmt/format.h>

#include "costmodel/base/input_error.h"
#include "simulator/lowering/fragment_writer.h"
#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {
namespace {

KernelKind elementwise_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Rope:
      return KernelKind::Rope;
    case OpKind::GatedActivation:
      return KernelKind::GatedActivation;
    case OpKind::Scale:
      return KernelKind::Scale;
    case OpKind::Dropout:
      return KernelKind::Dropout;
    default:
      return KernelKind::Activation;
  }
}

KernelDraft call_of(const FragmentWriter& writer, std::size_t op, KernelPart part) {
  const KernelKind kind = elementwise_kernel(writer.op(op).kind);
  KernelDraft call(kind, part, writer.op(op));
  if (kind == KernelKind::Dropout || kind == KernelKind::Rope) {
    call.kernel().place = writer.shards().place(writer.layouts(op).inputs[0]);
  }
  return call;
}

void forward_elementwise(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const FragmentWriter::Output y = writer.start_output(op);
  KernelDraft call = call_of(writer, op, KernelPart::Forward);
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) call.read(writer.input(op, i));
  call.write(y.computed);
  if (entry.kind == OpKind::Dropout) {
    writer.keep(op, {.elements = element_count(y.computed.operand)}, {});
    for (const View& kept : writer.statistics(op)) call.write(kept);
  }
  writer.emit(call);
  writer.finish_output(op, y);
}

void backward_elementwise(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  if (!writer.needs_gradient(entry.inputs[0])) return;
  const View dy = writer.output_gradient(op);
  const auto [dx, known] = writer.gradient_target(op, 0);
  KernelDraft call = call_of(writer, op, KernelPart::InputGradient);
  if (entry.kind == OpKind::Activation) call.read(writer.input(op, 0));
  if (entry.kind == OpKind::Dropout) {
    for (const View& kept : writer.statistics(op)) call.read(kept);
  }
  writer.emit(call.read(dy).addend(known, dx.operand).write(dx));
  writer.set_gradient(op, 0, dx);
}

void backward_gated(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const View dy = writer.output_gradient(op);
  KernelDraft call = call_of(writer, op, KernelPart::InputGradient);
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) call.read(writer.input(op, i));
  call.read(dy);
  std::vector<View> results;
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    results.push_back(writer.separate_target(op, i));
    call.write(results.back());
  }
  writer.emit(call);
  for (std::size_t i = 0; i < results.size(); ++i) writer.add_gradient(op, i, results[i]);
}

std::optional<std::string> gate_refusal(const OpGraph& graph, const GraphOp& op) {
  const auto dims = [&](std::size_t i) { return graph.tensors[op.inputs[i].index()].dims; };
  if (dims(0) == dims(1)) return std::nullopt;
  return "a gate that lacks dimensions";
}

std::optional<std::string> rope_refusal(const OpGraph&, const GraphOp& op) {
  const auto& rope = std::get<RopeAttributes>(op.attributes);
  if (!rope.scaling.empty() && rope.scaling != "linear" && rope.scaling != "llama3") {
    return fmt::format("rope scaling {}", printable(rope.scaling));
  }
  if (rope.rotated % 2 != 0) return fmt::format("rope of {} entries", rope.rotated);
  return std::nullopt;
}

}  // namespace

const OpLowering kElementwiseLowering{
    .forward = forward_elementwise, .backward = backward_elementwise, .takes_gaps = true};
const OpLowering kRopeLowering{.forward = forward_elementwise,
                               .backward = backward_elementwise,
                               .takes_gaps = true,
                               .form_refusal = rope_refusal};
const OpLowering kGatedLowering{.forward = forward_elementwise,
                                .backward = backward_gated,
                                .takes_gaps = true,
                                .form_refusal = gate_refusal};

}  // namespace meshwright

#include <algorithm>

#include "simulator/lowering/fragment_writer.h"
#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {
namespace {

// A weight as [experts, in, out], whichever way it is stored.
Operand expert_weight(const FragmentWriter& writer, std::size_t op, const View& view) {
  const GraphOp& entry = writer.op(op);
  const auto& dims = writer.dims(entry.weights[0]);
  const auto& result = writer.dims(entry.outputs[0]);
  Operand weight = view.operand;
  if (std::ranges::count(result, dims[1]) > 0) {  // [experts, out, in]
    std::swap(weight.sizes[1], weight.sizes[2]);
    std::swap(weight.strides[1], weight.strides[2]);
  }
  return weight;
}

void forward_expert_matmul(FragmentWriter& writer, std::size_t op) {
  const View weight = writer.weight(op, 0);
  const View y = writer.start_output(op).kept;
  const View x = writer.input(op, 0);
  KernelDraft call(KernelKind::ExpertMatmul, Phase::Forward, writer.op(op));
  call.kernel().counts = 2;
  call.read(x).read(weight, expert_weight(writer, op, weight));
  writer.emit(call.read(writer.expert_counts(writer.dispatch_of(op))).write(y));
}

void backward_expert_matmul(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const View dy = writer.output_gradient(op);
  const View counts = writer.expert_counts(writer.dispatch_of(op));
  if (writer.needs_gradient(entry.inputs[0])) {
    const View weight = writer.weight(op, 0);
    const auto [dx, known] = writer.gradient_target(op, 0);
    KernelDraft call(KernelKind::ExpertMatmul, Phase::InputGradient, entry);
    call.kernel().counts = 2;
    call.read(weight, expert_weight(writer, op, weight)).read(dy).read(counts);
    writer.emit(call.addend(known, dx.operand).write(dx));
    writer.set_gradient(op, 0, dx);
  }
  if (!writer.trains(op)) return;
  const View x = writer.input(op, 0, Phase::WeightGradient);
  const View dw = writer.weight_gradient(op, 0);
  KernelDraft call(KernelKind::ExpertMatmul, Phase::WeightGradient, entry);
  call.kernel().counts = 2;
  call.read(x).read(dy).read(counts).write(dw, expert_weight(writer, op, dw));
  writer.emit(call.computes_gradients(op, entry.weights));
}

std::optional<std::string> expert_matmul_refusal(const OpGraph& graph, const GraphOp& op) {
  if (op.weights.size() > 1) return "a bias of experts";
  if (graph.weights[op.weights[0].index()].dims.size() != 3) return "a weight of experts so shaped";
  return std::nullopt;
}

}  // namespace

const OpLowering kExpertMatmulLowering{.forward = forward_expert_matmul,
                                       .backward = backward_expert_matmul,
                                       .form_refusal = expert_matmul_refusal};

}  // namespace meshwright

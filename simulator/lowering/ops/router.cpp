#include "simulator/lowering/fragment_writer.h"
#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {
namespace {

void forward_router(FragmentWriter& writer, std::size_t op) {
  const FragmentWriter::Output share = writer.start_output(op);
  const FragmentWriter::Output expert = writer.start_output(op, 1);
  const View logits = writer.input(op, 0);
  KernelDraft call(KernelKind::Router, Phase::Forward, writer.op(op));
  call.kernel().capacity =
      rows_of_expert(writer.plan(), share.kept.operand.sizes.back(), logits.operand.sizes.back());
  writer.emit(call.read(logits).write(share.kept).write(expert.kept));
}

void backward_router(FragmentWriter& writer, std::size_t op) {
  const View dshare = writer.output_gradient(op);
  const View expert = writer.output(op, 1);
  const View logits = writer.input(op, 0);
  const auto [dx, known] = writer.gradient_target(op, 0);
  KernelDraft call(KernelKind::Router, Phase::InputGradient, writer.op(op));
  call.read(logits).read(expert).read(dshare).addend(known, dx.operand);
  writer.emit(call.write(dx));
  writer.set_gradient(op, 0, dx);
}

std::optional<std::string> router_refusal(const OpGraph& graph, const GraphOp& op) {
  const auto& dims = graph.tensors[op.inputs[0].index()].dims;
  const bool tokens = dims.size() == 3 && graph.dims[dims[0].index()].role == DimRole::Batch &&
                      graph.dims[dims[1].index()].role == DimRole::Sequence;
  if (!tokens) return "choosing experts for other than the tokens of sequences";
  return std::nullopt;
}

}  // namespace

const OpLowering kRouterLowering{
    .forward = forward_router, .backward = backward_router, .form_refusal = router_refusal};

}  // namespace meshwright

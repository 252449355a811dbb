#include "simulator/lowering/fragment_writer.h"
#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {
namespace {

bool is_balanced(const FragmentWriter& writer, std::size_t op) {
  return std::get<RouterAttributes>(writer.op(op).attributes).balance > 0;
}

// Of how many samples and tokens a kernel has some; which these are does not matter.
std::vector<DimPlace> place_of(const FragmentWriter& writer, const Extents& sizes) {
  const Plan& plan = writer.plan();
  std::vector<DimPlace> place = {{{{0, sizes[0]}}, plan.global_batch},
                                 {{{0, sizes[1]}}, plan.sequence}};
  for (std::size_t d = 2; d < sizes.size(); ++d) place.push_back({{{0, sizes[d]}}, sizes[d]});
  return place;
}

// Choices and shares of whole sequences, and the loss that they cost. Every device that has a part
// of a sequence knows all of its loss, and adds a part of it where the step sums parts up.
void add_balance(FragmentWriter& writer, std::size_t op, const View& logits, const View& expert) {
  const GraphOp& entry = writer.op(op);
  const View sums =
      writer.new_view(entry.name + ".sums", {logits.operand.sizes[0], 2, logits.operand.sizes[2]},
                      BufferElement::Double);
  writer.set_statistics(op, {sums});
  KernelDraft add(KernelKind::BalanceSums, Phase::Forward, entry);
  writer.emit(add.read(logits).read(expert).write(sums));
  const std::vector<AxisId>& axes = writer.layouts(op).inputs[0].dims[1].sharding.axes;
  if (!axes.empty()) writer.all_reduce(sums, axes, Reduction::Sum, Purpose::Experts);
  if (writer.rerunning()) return;
  KernelDraft loss(KernelKind::Balance, Phase::Forward, entry);
  loss.kernel().accumulate = writer.has_loss();
  const std::int64_t parts = writer.placement().mesh().size(writer.context_axes());
  const std::int64_t part = writer.plan().sequence / parts;
  loss.kernel().place = place_of(writer, {logits.operand.sizes[0], part});
  writer.emit(loss.read(sums).write(writer.loss_sum()));
}

void forward_router(FragmentWriter& writer, std::size_t op) {
  const FragmentWriter::Output share = writer.start_output(op);
  const FragmentWriter::Output expert = writer.start_output(op, 1);
  const View logits = writer.input(op, 0);
  KernelDraft call(KernelKind::Router, Phase::Forward, writer.op(op));
  call.kernel().capacity =
      rows_of_expert(writer.plan(), share.kept.operand.sizes.back(), logits.operand.sizes.back());
  call.read(logits);
  if (!writer.op(op).weights.empty()) call.read(writer.weight(op, 0));
  writer.emit(call.write(share.kept).write(expert.kept));
  if (is_balanced(writer, op)) add_balance(writer, op, logits, expert.kept);
}

void backward_router(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const View expert = writer.output(op, 1);
  if (writer.needs_gradient(entry.inputs[0])) {
    const View dshare = writer.output_gradient(op);
    const View logits = writer.input(op, 0);
    auto [dx, known] = writer.gradient_target(op, 0);
    if (is_balanced(writer, op)) {
      const View slope = writer.new_view("d " + entry.name + ".balance", dx.operand.sizes);
      KernelDraft call(KernelKind::Balance, Phase::InputGradient, entry);
      call.kernel().place = place_of(writer, logits.operand.sizes);
      call.read(logits).read(writer.statistics(op)[0]).addend(known, dx.operand);
      writer.emit(call.write(slope));
      known = slope;
    }
    KernelDraft call(KernelKind::Router, Phase::InputGradient, entry);
    call.read(logits).read(expert).read(dshare).addend(known, dx.operand);
    writer.emit(call.write(dx));
    writer.set_gradient(op, 0, dx);
  }
  if (entry.weights.empty() || !writer.trains(op)) return;
  const View dbias = writer.weight_gradient(op, 0);
  KernelDraft call(KernelKind::Router, Phase::WeightGradient, entry);
  call.kernel().place = place_of(writer, expert.operand.sizes);
  call.read(expert).write(dbias, as_row(dbias.operand));
  writer.emit_gradients(op, call);
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

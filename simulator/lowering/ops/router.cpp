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

// What finds no room by its place in the whole sequence, of which the device has a part.
void drop_by_place(FragmentWriter& writer, std::size_t op, const View& chosen, const View& left,
                   std::int64_t experts, std::int64_t room) {
  const GraphOp& entry = writer.op(op);
  const Layout& layout = writer.layouts(op).outputs[1];
  const Pieces pieces = writer.pieces_of(layout.dims[1]);
  const Extents& sizes = chosen.operand.sizes;
  const auto new_counts = [&](const char* what, std::int64_t count) {
    return writer.new_view(entry.name + what, {sizes[0], count, experts}, BufferElement::Index,
                           Component::Transfers);
  };
  const View own = new_counts(".counts", sizes[1] / pieces.size);
  const View all = new_counts(".all_counts", pieces.count);
  KernelDraft add(KernelKind::RouterCounts, Phase::Forward, entry);
  writer.emit(add.read(chosen).write(own));
  writer.gather_pieces(own, all, layout.dims[1], pieces);
  KernelDraft drop(KernelKind::RouterRoom, Phase::Forward, entry);
  drop.kernel().capacity = room;
  drop.kernel().place = writer.shards().place(layout);
  writer.emit(drop.read(chosen).read(all).write(left));
}

void forward_router(FragmentWriter& writer, std::size_t op) {
  const FragmentWriter::Output share = writer.start_output(op);
  const FragmentWriter::Output expert = writer.start_output(op, 1);
  const View logits = writer.input(op, 0);
  const std::int64_t experts = logits.operand.sizes.back();
  const auto room = rows_of_expert(writer.plan(), share.kept.operand.sizes.back(), experts);
  const bool in_parts = room && !writer.layouts(op).inputs[0].dims[1].sharding.axes.empty();
  View chosen = expert.kept;
  if (in_parts) {
    chosen = writer.new_view(writer.op(op).name + ".chosen", chosen.operand.sizes,
                             BufferElement::Index, Component::Transfers);
  }
  KernelDraft call(KernelKind::Router, Phase::Forward, writer.op(op));
  if (!in_parts) call.kernel().capacity = room;
  call.read(logits);
  if (!writer.op(op).weights.empty()) call.read(writer.weight(op, 0));
  writer.emit(call.write(share.kept).write(chosen));
  if (in_parts) drop_by_place(writer, op, chosen, expert.kept, experts, *room);
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

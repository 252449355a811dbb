// Tokens to their experts and back: a copy of each token for every expert it chose, ordered by
// expert, and sent to the devices of these.

#include "simulator/lowering/fragment_writer.h"
#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {
namespace {

// Ordered by sender as they come, or by expert as products take them: the same where a device has
// one expert.
void sort_rows(FragmentWriter& writer, std::size_t op, std::size_t dispatch, Phase phase,
               const View& from, const View& to) {
  KernelDraft call(KernelKind::SortRows, phase, writer.op(op));
  call.kernel().counts = 1;
  writer.emit_now(call.read(from).read(writer.expert_counts(dispatch)).write(to));
}

// Copies of the device's tokens to the rows of its experts.
void send_rows(FragmentWriter& writer, std::size_t op, std::size_t dispatch, const View& from,
               const View& to) {
  const RoutedRows rows = writer.routed_rows(dispatch);
  if (rows.own_experts == 1) return writer.exchange_rows(dispatch, from, to, false);
  const View received = writer.new_rows(writer.op(op).name + ".received", dispatch,
                                        to.operand.sizes.back(), Component::Transfers);
  writer.exchange_rows(dispatch, from, received, false);
  sort_rows(writer, op, dispatch, Phase::Forward, received, to);
}

// And back to where the tokens are.
View return_rows(FragmentWriter& writer, std::size_t op, std::size_t dispatch, View from) {
  const RoutedRows rows = writer.routed_rows(dispatch);
  if (rows.senders == 1) return from;
  const std::int64_t columns = from.operand.sizes.back();
  const std::string& name = writer.op(op).name;
  if (rows.own_experts > 1) {
    const View sorted = writer.new_rows(name + ".sorted", dispatch, columns, Component::Transfers);
    sort_rows(writer, op, dispatch, Phase::InputGradient, from, sorted);
    from = sorted;
  }
  const View back = writer.new_view(name + ".returned", {rows.sent(), columns}, BufferElement::Real,
                                    Component::Transfers);
  writer.exchange_rows(dispatch, from, back, true);
  return back;
}

void order_rows(FragmentWriter& writer, std::size_t op) {
  const RoutedRows rows = writer.routed_rows(op);
  const std::string& name = writer.op(op).name;
  const View place =
      writer.new_view(name + ".place", {rows.tokens, rows.choices}, BufferElement::Index);
  const View counts =
      writer.new_view(name + ".counts", {rows.senders, rows.experts}, BufferElement::Index);
  writer.set_statistics(op, {place, counts});
  const View expert = writer.input(op, 1);
  View own = counts;
  own.operand = dense_operand({1, rows.experts}, BufferElement::Index, rows.place * rows.experts);
  KernelDraft call(KernelKind::ExpertOrder, Phase::Forward, writer.op(op));
  writer.emit(call.read(expert, as_matrix(expert.operand, 1)).write(place).write(own));
  writer.gather_counts(own, counts, rows.axes);
}

void forward_dispatch(FragmentWriter& writer, std::size_t op) {
  order_rows(writer, op);
  const RoutedRows rows = writer.routed_rows(op);
  const View y = writer.start_output(op).kept;
  const View x = writer.input(op, 0);
  const std::int64_t columns = y.operand.sizes.back();
  View copies = y;
  if (rows.senders > 1) {
    copies = writer.new_view(writer.op(op).name + ".sent", {rows.sent(), columns},
                             BufferElement::Real, Component::Transfers);
  }
  KernelDraft call(KernelKind::Dispatch, Phase::Forward, writer.op(op));
  call.read(x, as_matrix(x.operand, 1)).read(writer.statistics(op)[0]);
  writer.emit(call.write(copies));
  if (rows.senders > 1) send_rows(writer, op, op, copies, y);
}

void backward_dispatch(FragmentWriter& writer, std::size_t op) {
  if (!writer.needs_gradient(writer.op(op).inputs[0])) return;
  const View dy = return_rows(writer, op, op, writer.output_gradient(op));
  const auto [dx, known] = writer.gradient_target(op, 0);
  const Operand shape = as_matrix(dx.operand, 1);
  KernelDraft call(KernelKind::Dispatch, Phase::InputGradient, writer.op(op));
  call.read(writer.statistics(op)[0]).read(dy).addend(known, shape);
  writer.emit(call.write(dx, shape));
  writer.set_gradient(op, 0, dx);
}

void forward_combine(FragmentWriter& writer, std::size_t op) {
  const std::size_t dispatch = writer.dispatch_of(op);
  const FragmentWriter::Output y = writer.start_output(op);
  const View rows = return_rows(writer, op, dispatch, writer.input(op, 0));
  const View share = writer.input(op, 1);
  KernelDraft call(KernelKind::Combine, Phase::Forward, writer.op(op));
  call.read(rows).read(share, as_matrix(share.operand, 1)).read(writer.statistics(dispatch)[0]);
  writer.emit(call.write(y.computed, as_matrix(y.computed.operand, 1)));
  writer.set_statistics(op, {rows});
  writer.finish_output(op, y);
}

// The executor weighs rows here, and so needs them again. Other software weighs them before the
// last product, where the activation's gradient finds the shares' too.
void backward_combine(FragmentWriter& writer, std::size_t op) {
  const std::size_t dispatch = writer.dispatch_of(op);
  const RoutedRows routed = writer.routed_rows(dispatch);
  const GraphOp& entry = writer.op(op);
  const View dy = writer.output_gradient(op);
  const View share = writer.input(op, 1);
  const auto target = [&](std::size_t input, const View& like) {
    if (writer.needs_gradient(entry.inputs[input])) return writer.separate_target(op, input);
    return writer.new_view("d " + entry.name, like.operand.sizes);
  };
  const View dx = target(0, writer.input(op, 0));
  const View dshare = target(1, share);
  View rows = dx;
  if (routed.senders > 1) {
    rows = writer.new_view(entry.name + ".sent", {routed.sent(), dx.operand.sizes.back()},
                           BufferElement::Real, Component::Transfers);
  }
  KernelDraft call(KernelKind::Combine, Phase::InputGradient, entry);
  if (writer.plan().kernels == KernelSet::Executor) {
    call.read(routed.senders > 1 ? writer.statistics(op)[0] : writer.input(op, 0));
  }
  call.read(share, as_matrix(share.operand, 1)).read(writer.statistics(dispatch)[0]);
  call.read(dy, as_matrix(dy.operand, 1)).write(rows);
  writer.emit(call.write(dshare, as_matrix(dshare.operand, 1)));
  if (routed.senders > 1) send_rows(writer, op, dispatch, rows, dx);
  if (writer.needs_gradient(entry.inputs[0])) writer.add_gradient(op, 0, dx);
  if (writer.needs_gradient(entry.inputs[1])) writer.add_gradient(op, 1, dshare);
}

// A row is all numbers of one choice of a token.
std::optional<std::string> rows_refusal(const OpGraph& graph, const GraphOp& op) {
  const auto& tokens = graph.tensors[op.inputs[1].index()].dims;
  const bool dispatch = op.kind == OpKind::Dispatch;
  const TensorId rows = dispatch ? op.outputs[0] : op.inputs[0];
  const bool single = graph.tensors[rows.index()].dims.size() == tokens.size() + 1;
  if (!single) return "rows of experts with several dimensions";
  return std::nullopt;
}

}  // namespace

View FragmentWriter::new_rows(const std::string& name, std::size_t dispatch, std::int64_t columns,
                              Component component) {
  const RoutedRows rows = routed_rows(dispatch);
  const View view = new_view(name, {rows.expected, columns}, BufferElement::Real, component);
  if (!rows.counted) return view;
  Buffer& buffer = fragment_.buffers[view.buffer.index()].buffer;
  buffer.expected = buffer.count;
  buffer.count = checked_multiply(rows.room, columns);
  counted_[view.buffer] = dispatch;
  return view;
}

View FragmentWriter::expert_counts(std::size_t dispatch) const {
  const RoutedRows rows = routed_rows(dispatch);
  View counts = statistics(dispatch)[1];
  counts.operand.offset = rows.first_expert;
  counts.operand.sizes[1] = rows.own_experts;
  return counts;
}

void FragmentWriter::count_rows(KernelDraft& call) const {
  std::optional<std::size_t> dispatch;
  for (std::size_t i = 0; i < call.buffers().size(); ++i) {
    const auto found = counted_.find(call.buffers()[i]);
    if (found == counted_.end()) continue;
    call.kernel().operands[i].counted = true;
    dispatch = found->second;
  }
  if (!dispatch || call.kernel().counts) return;
  call.read(expert_counts(*dispatch));
  call.kernel().counts = call.buffers().size() - 1;
}

void FragmentWriter::gather_counts(const View& own, const View& all,
                                   const std::vector<AxisId>& axes) {
  if (axes.empty()) return;
  add_task(transfer_task({.kind = TransferKind::AllGather,
                          .purpose = Purpose::Experts,
                          .group = placement_.group(axes)},
                         own, all));
}

void FragmentWriter::exchange_rows(std::size_t dispatch, const View& from, const View& to,
                                   bool returns) {
  const View counts = statistics(dispatch)[1];
  FragmentTask task = transfer_task({.kind = TransferKind::AllToAll,
                                     .purpose = Purpose::Experts,
                                     .group = placement_.group(routed_rows(dispatch).axes),
                                     .rows = CountedRows{counts.operand, returns}},
                                    from, to);
  task.operands.push_back(counts.buffer);
  add_task(std::move(task));
}

const OpLowering kDispatchLowering{
    .forward = forward_dispatch, .backward = backward_dispatch, .form_refusal = rows_refusal};
const OpLowering kCombineLowering{
    .forward = forward_combine, .backward = backward_combine, .form_refusal = rows_refusal};

}  // namespace meshwright

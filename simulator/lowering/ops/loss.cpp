#include "simulator/lowering/fragment_writer.h"
#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {
namespace {

// Of the vocabulary that this device holds.
std::int64_t first_class(const FragmentWriter& writer, std::size_t op) {
  return writer.shards().range(writer.layouts(op).inputs[0].dims.back()).start;
}

// Sums over the vocabulary that devices have parts of.
void combine(FragmentWriter& writer, std::size_t op, const View& view, Reduction reduction) {
  for (const SharedStatistics& statistics : writer.layouts(op).statistics) {
    writer.all_reduce(view, statistics.axes, reduction);
  }
}

void forward_loss(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const View logits = writer.input(op, 0);
  const View labels = writer.input(op, 1);
  const Operand shape = as_matrix(logits.operand, 1);
  const Operand rows = as_row(labels.operand);
  const BufferElement state = state_element(writer.plan());
  const View largest = writer.new_view(entry.name + ".largest", {shape.sizes[0]}, state);
  const View sums = writer.new_view(entry.name + ".sums", {shape.sizes[0], 2}, state);
  writer.set_statistics(op, {largest, sums});

  KernelDraft most(KernelKind::LossLargest, Phase::Forward, entry);
  writer.emit(most.read(logits, shape).write(largest));
  combine(writer, op, largest, Reduction::Max);
  KernelDraft add(KernelKind::LossSums, Phase::Forward, entry);
  add.kernel().first_row = first_class(writer, op);
  add.read(logits, shape).read(labels, rows).read(largest).write(sums);
  if (keeps_probabilities(writer.plan().kernels)) {
    const KeptShape kept{.elements = element_count(logits.operand)};
    writer.keep(op, kept, {});
    add.write(writer.statistics(op).back());
    writer.add_workspace(op, kept, add);
  }
  writer.emit(add);
  combine(writer, op, sums, Reduction::Sum);
  if (writer.rerunning()) return;  // the loss is a sum over micro-batches
  KernelDraft mean(KernelKind::Loss, Phase::Forward, entry);
  mean.kernel().accumulate = writer.has_loss();
  writer.emit(mean.read(labels, rows).read(largest).read(sums).write(writer.loss_sum()));
}

void backward_loss(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const Plan& plan = writer.plan();
  const View logits = writer.input(op, 0);
  const View labels = writer.input(op, 1);
  const Operand shape = as_matrix(logits.operand, 1);
  const auto& kept_numbers = writer.statistics(op);
  const View dx = writer.separate_target(op, 0);
  KernelDraft call(KernelKind::Loss, Phase::InputGradient, entry);
  call.kernel().first_row = first_class(writer, op);
  if (keeps_probabilities(plan.kernels)) {
    call.read(kept_numbers.back());
  } else {
    call.read(logits, shape);
  }
  call.read(labels, as_row(labels.operand));
  call.read(kept_numbers[0]).read(kept_numbers[1]).write(dx, shape);
  writer.add_workspace(
      op,
      loss_gradient_workspace(plan.kernels, {.elements = element_count(shape)},
                              bytes_per_element(BufferElement::Real, plan.precision)),
      call);
  writer.emit(call);
  writer.add_gradient(op, 0, dx);
}

}  // namespace

const OpLowering kLossLowering{.forward = forward_loss, .backward = backward_loss};

}  // namespace meshwright

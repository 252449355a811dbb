#include <algorithm>
#include <cassert>

#include "simulator/lowering/chunk_lowering.h"

namespace meshwright {

bool ChunkLowering::needs_gradient(TensorId tensor) const {
  return graph_.tensors[tensor.index()].needs_gradient;
}

void ChunkLowering::receive_gradient(const Message& message) {
  if (!needs_gradient(message.tensor)) return;
  const View view = new_gradient(message.tensor);
  receive(view, message);
  add_whole(message.tensor, view);
}

void ChunkLowering::send_gradient(const Message& message) {
  if (needs_gradient(message.tensor)) send(gradient(message.tensor), message);
}

View ChunkLowering::new_gradient(TensorId tensor) {
  return new_view("d " + graph_.tensors[tensor.index()].name, sharding_.sizes(tensor));
}

View ChunkLowering::gradient_target(TensorId tensor) {
  const std::size_t producer = planned_.producer[tensor.index()];
  if (producer >= graph_.ops.size() || !in_chunk(producer) ||
      graph_.ops[producer].kind != OpKind::Split) {
    return new_gradient(tensor);
  }
  const GraphOp& split = graph_.ops[producer];
  GradientSum& sum = gradients_[split.inputs[0]];
  if (!sum.whole) sum.whole = new_gradient(split.inputs[0]);
  const auto found = std::find(split.outputs.begin(), split.outputs.end(), tensor);
  return piece_of(*sum.whole, producer, static_cast<std::size_t>(found - split.outputs.begin()));
}

View ChunkLowering::gathered_target(std::size_t op) {
  const TensorId tensor = graph_.ops[op].inputs[0];
  return new_view("d " + graph_.tensors[tensor.index()].name, sharding_.work_sizes(op, tensor),
                  BufferElement::Real, Component::Transfers);
}

View ChunkLowering::separate_target(TensorId tensor) {
  return gradients_[tensor].whole ? new_gradient(tensor) : gradient_target(tensor);
}

void ChunkLowering::add_whole(TensorId tensor, const View& view) {
  GradientSum& sum = gradients_[tensor];
  if (!sum.whole) {
    sum.whole = view;
    return;
  }
  const View both = new_gradient(tensor);
  emit_sum(tensor, view, sum.whole, both, view.operand, both.operand);
  gradients_[tensor].whole = both;
}

void ChunkLowering::emit_sum(TensorId tensor, const View& from, const std::optional<View>& addend,
                             const View& to, const Operand& shape, const Operand& result) {
  GraphOp name;
  name.name = graph_.tensors[tensor.index()].name;
  KernelDraft call(KernelKind::Sum, KernelPart::InputGradient, name);
  call.read(from, shape);
  emit(call.addend(addend, result).write(to, result));
}

View ChunkLowering::gradient(TensorId tensor) {
  GradientSum& sum = gradients_[tensor];
  if (sum.partial) {
    View reduced = *sum.partial;
    sum.partial.reset();
    if (reduced.operand.sizes == sharding_.sizes(tensor)) {
      all_reduce(reduced);
    } else {
      const View part = new_gradient(tensor);
      reduce_scatter(tensor, reduced, part);
      reduced = part;
    }
    add_whole(tensor, reduced);
  }
  assert(gradients_[tensor].whole);
  return *gradients_[tensor].whole;
}

View ChunkLowering::output_gradient(std::size_t op) {
  const TensorId tensor = graph_.ops[op].outputs[0];
  const View part = gradient(tensor);
  if (!sharding_.scatters(op)) return part;
  const View whole =
      new_view("d " + graph_.tensors[tensor.index()].name, sharding_.work_sizes(op, tensor),
               BufferElement::Real, Component::Transfers);
  all_gather(tensor, part, whole);
  return whole;
}

void ChunkLowering::backward(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  switch (entry.kind) {
    case OpKind::Embedding:
      return backward_embedding(op);
    case OpKind::Matmul:
      return backward_matmul(op);
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
      return backward_norm(op);
    case OpKind::Attention:
      return backward_attention(op);
    case OpKind::Rope:
    case OpKind::Activation:
    case OpKind::Scale:
    case OpKind::Dropout:
      return backward_elementwise(op);
    case OpKind::GatedActivation:
      return backward_gated(op);
    case OpKind::Add:
      return backward_add(op);
    case OpKind::CrossEntropy:
      return backward_loss(op);
    default:  // a split has nothing to do
      return;
  }
}

bool ChunkLowering::trains(std::size_t op) const {
  return !graph_.weights[graph_.ops[op].weights[0].index()].frozen;
}

void ChunkLowering::emit_weight_gradient(std::size_t op, KernelDraft& call) {
  for (const WeightId id : graph_.ops[op].weights) {
    call.task().gradients.push_back(weights_.use(op, id));
  }
  emit(call);
}

void ChunkLowering::backward_embedding(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View dy = output_gradient(op);
  const View& index = value(entry.inputs[0]);
  const View table = weight_gradient(op, entry.weights[0]);
  KernelDraft call(KernelKind::Embedding, KernelPart::WeightGradient, entry);
  call.kernel().first_row = first_row(op);
  call.read(index, as_row(index.operand)).read(dy, as_matrix(dy.operand, table_columns(op)));
  call.write(table, as_matrix(table.operand, table_columns(op)));
  emit_weight_gradient(op, call);
}

void ChunkLowering::backward_matmul(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View dy = output_gradient(op);
  const View matrix = weight(op, entry.weights[0]);
  const Operand shape = weight_matrix(op, matrix);
  const Operand rows = as_rows(dy.operand, shape.sizes[1]);
  if (needs_gradient(entry.inputs[0])) {
    GradientSum& sum = gradients_[entry.inputs[0]];
    std::optional<View>& known = gives_partial_gradient(op) ? sum.partial : sum.whole;
    const View dx = sharding_.gathers(op) ? gathered_target(op) : gradient_target(entry.inputs[0]);
    const Operand in = as_matrix(dx.operand, contracted(op));
    KernelDraft call(KernelKind::Matmul, KernelPart::InputGradient, entry);
    call.read(matrix, shape).read(dy, rows).addend(known, in);
    emit(call.write(dx, in));
    known = dx;
  }
  if (!trains(op)) return;
  const View x = gathered_input(op);
  const View dw = weight_gradient(op, entry.weights[0]);
  KernelDraft call(KernelKind::Matmul, KernelPart::WeightGradient, entry);
  call.read(x, as_matrix(x.operand, contracted(op)))
      .read(dy, rows)
      .write(dw, weight_matrix(op, dw));
  if (entry.weights.size() == 2) {
    const View db = weight_gradient(op, entry.weights[1]);
    call.write(db, as_row(db.operand));
  }
  emit_weight_gradient(op, call);
}

void ChunkLowering::backward_norm(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View dy = gradient(entry.outputs[0]);
  const View& x = value(entry.inputs[0]);
  const Operand shape = as_matrix(x.operand, norm_columns(op));
  const auto& kept_numbers = statistics(op);
  if (needs_gradient(entry.inputs[0])) {
    const View gain = weight(op, entry.weights[0]);
    std::optional<View>& known = gradients_[entry.inputs[0]].whole;
    const View dx = gradient_target(entry.inputs[0]);
    KernelDraft call(norm_kernel(entry), KernelPart::InputGradient, entry);
    call.read(x, shape).read(gain, as_row(gain.operand));
    for (const View& kept : kept_numbers) call.read(kept);
    call.read(dy, shape).addend(known, shape);
    emit(call.write(dx, shape));
    known = dx;
  }
  if (!trains(op)) return;
  KernelDraft call(norm_kernel(entry), KernelPart::WeightGradient, entry);
  call.read(x, shape);
  for (const View& kept : kept_numbers) call.read(kept);
  call.read(dy, shape);
  for (const WeightId id : entry.weights) {
    const View dw = weight_gradient(op, id);
    call.write(dw, as_row(dw.operand));
  }
  emit_weight_gradient(op, call);
}

void ChunkLowering::backward_attention(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View dy = gradient(entry.outputs[0]);
  const View& y = value(entry.outputs[0]);
  KernelDraft call(KernelKind::Attention, KernelPart::InputGradient, entry);
  call.kernel().place = attention_place(op);
  for (std::size_t i = 0; i < 3; ++i) {
    const View& x = value(entry.inputs[i]);
    call.read(x, as_heads(x.operand));
  }
  if (plan_.kernels != KernelSet::Unfused) call.read(y, as_heads(y.operand));
  for (const View& kept : statistics(op)) call.read(kept);
  call.read(dy, as_heads(dy.operand));
  std::vector<View> results;
  for (std::size_t i = 0; i < 3; ++i) {
    results.push_back(separate_target(entry.inputs[i]));
    call.write(results.back(), as_heads(results.back().operand));
  }
  add_workspace(op, attention_shape(op), call);
  emit(call);
  for (std::size_t i = 0; i < 3; ++i) add_whole(entry.inputs[i], results[i]);
}

void ChunkLowering::backward_elementwise(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  if (!needs_gradient(entry.inputs[0])) return;
  const View dy = gradient(entry.outputs[0]);
  std::optional<View>& known = gradients_[entry.inputs[0]].whole;
  const View dx = gradient_target(entry.inputs[0]);
  KernelDraft call = elementwise_call(op, KernelPart::InputGradient);
  if (entry.kind == OpKind::Activation) call.read(value(entry.inputs[0]));
  if (entry.kind == OpKind::Dropout) {
    for (const View& kept : statistics(op)) call.read(kept);
  }
  emit(call.read(dy).addend(known, dx.operand).write(dx));
  gradients_[entry.inputs[0]].whole = dx;
}

void ChunkLowering::backward_gated(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View dy = gradient(entry.outputs[0]);
  KernelDraft call = elementwise_call(op, KernelPart::InputGradient);
  for (const TensorId input : entry.inputs) call.read(value(input));
  call.read(dy);
  std::vector<View> results;
  for (const TensorId input : entry.inputs) {
    results.push_back(separate_target(input));
    call.write(results.back());
  }
  emit(call);
  for (std::size_t i = 0; i < results.size(); ++i) add_whole(entry.inputs[i], results[i]);
}

void ChunkLowering::backward_add(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View dy = gradient(entry.outputs[0]);
  for (const TensorId input : entry.inputs) {
    if (!needs_gradient(input)) continue;
    if (graph_.tensors[input.index()].dims == graph_.tensors[entry.outputs[0].index()].dims) {
      add_whole(input, dy);
      continue;
    }
    const View dx = new_gradient(input);
    emit_sum(input, dy, std::nullopt, dx, dy.operand, broadcast(input, entry.outputs[0]));
    add_whole(input, dx);
  }
}

void ChunkLowering::backward_loss(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View& logits = value(entry.inputs[0]);
  const View& labels = value(entry.inputs[1]);
  const Operand shape = as_matrix(logits.operand, 1);
  const auto& kept_numbers = statistics(op);
  const View dx = gradient_target(entry.inputs[0]);
  KernelDraft call(KernelKind::Loss, KernelPart::InputGradient, entry);
  call.kernel().first_row = first_class(op);
  if (keeps_probabilities(plan_.kernels)) {
    call.read(kept_numbers.back());
  } else {
    call.read(logits, shape);
  }
  call.read(labels, as_row(labels.operand));
  call.read(kept_numbers[0]).read(kept_numbers[1]).write(dx, shape);
  add_workspace(op,
                loss_gradient_workspace(plan_.kernels, {.elements = element_count(shape)},
                                        bytes_per_element(BufferElement::Real, plan_.precision)),
                call);
  emit(call);
  gradients_[entry.inputs[0]].whole = dx;
}

}  // namespace meshwright

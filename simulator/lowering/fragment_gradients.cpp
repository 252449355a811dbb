// Gradients of a fragment's tensors: sums of what their readers contribute.

#include <algorithm>
#include <cassert>

#include "simulator/lowering/fragment_writer.h"

namespace meshwright {

void FragmentWriter::receive_gradient(const Message& message) {
  if (!needs_gradient(message.tensor)) return;
  if (edges_ == FragmentEdges::Given) {
    // All that ops outside contribute is one gradient.
    if (gradients_[message.tensor].whole) return;
    const View view = new_gradient(message.tensor);
    fragment_.buffers[view.buffer.index()].buffer.persistent = true;
    add_whole(message.tensor, view);
    return;
  }
  const View view = new_gradient(message.tensor);
  receive(view, message);
  add_whole(message.tensor, view);
}

View FragmentWriter::new_gradient(TensorId tensor) {
  return new_tensor("d " + graph().tensors[tensor.index()].name, tensor, BufferElement::Real);
}

bool FragmentWriter::is_piece(TensorId tensor) const {
  const std::size_t producer = planned_.producer[tensor.index()];
  return producer < graph().ops.size() && range_.contains(producer) &&
         graph().ops[producer].kind == OpKind::Split;
}

View FragmentWriter::whole_target(TensorId tensor) {
  if (!is_piece(tensor)) return new_gradient(tensor);
  const std::size_t producer = planned_.producer[tensor.index()];
  const GraphOp& split = graph().ops[producer];
  if (!pieces_.contains(producer)) {
    const bool moves = !planned_.steps(producer, &OpRelayouts::input_gradients, 0).empty();
    pieces_[producer] = moves ? gradient_target(producer, 0).view : new_gradient(split.inputs[0]);
  }
  const auto found = std::find(split.outputs.begin(), split.outputs.end(), tensor);
  return piece_of(pieces_[producer], producer,
                  static_cast<std::size_t>(found - split.outputs.begin()));
}

FragmentWriter::Pending* FragmentWriter::find_pending(std::size_t op, std::size_t input) {
  const TensorId tensor = graph().ops[op].inputs[input];
  const RelayoutSteps& steps = planned_.steps(op, &OpRelayouts::input_gradients, input);
  const Layout& layout = layouts(op).input_gradients[input];
  for (Pending& pending : gradients_[tensor].pending) {
    if (pending.layout == layout && pending.steps == steps) return &pending;
  }
  return nullptr;
}

FragmentWriter::GradientTarget FragmentWriter::gradient_target(std::size_t op, std::size_t input) {
  const TensorId tensor = graph().ops[op].inputs[input];
  const RelayoutSteps& steps = planned_.steps(op, &OpRelayouts::input_gradients, input);
  if (steps.empty()) {
    const std::optional<View> known = gradients_[tensor].whole;
    return {whole_target(tensor), known};
  }
  const Pending* pending = find_pending(op, input);
  const std::optional<View> known = pending ? std::optional(pending->view) : std::nullopt;
  if (are_in_place(steps)) return {new_gradient(tensor), known};
  return {new_view("d " + graph().tensors[tensor.index()].name,
                   shards_.sizes(layouts(op).input_gradients[input]), BufferElement::Real,
                   Component::Transfers),
          known};
}

void FragmentWriter::set_gradient(std::size_t op, std::size_t input, const View& view) {
  const TensorId tensor = graph().ops[op].inputs[input];
  const RelayoutSteps& steps = planned_.steps(op, &OpRelayouts::input_gradients, input);
  if (steps.empty()) {
    gradients_[tensor].whole = view;
  } else if (Pending* pending = find_pending(op, input)) {
    pending->view = view;
  } else {
    gradients_[tensor].pending.push_back({layouts(op).input_gradients[input], steps, view});
  }
}

View FragmentWriter::separate_target(std::size_t op, std::size_t input) {
  const TensorId tensor = graph().ops[op].inputs[input];
  if (!planned_.steps(op, &OpRelayouts::input_gradients, input).empty()) {
    return gradient_target(op, input).view;
  }
  return gradients_[tensor].whole ? new_gradient(tensor) : whole_target(tensor);
}

View FragmentWriter::repeated_target(std::size_t op, std::size_t input) {
  const bool moves = !planned_.steps(op, &OpRelayouts::input_gradients, input).empty();
  return moves ? gradient_target(op, input).view : new_gradient(graph().ops[op].inputs[input]);
}

void FragmentWriter::add_gradient(std::size_t op, std::size_t input, const View& view) {
  const TensorId tensor = graph().ops[op].inputs[input];
  if (planned_.steps(op, &OpRelayouts::input_gradients, input).empty()) {
    return add_whole(tensor, view);
  }
  const Pending* pending = find_pending(op, input);
  if (!pending) return set_gradient(op, input, view);
  const View known = pending->view;
  const View both = gradient_target(op, input).view;
  emit_sum(tensor, view, known, both, view.operand, both.operand);
  set_gradient(op, input, both);
}

void FragmentWriter::add_whole(TensorId tensor, const View& view) {
  GradientSum& sum = gradients_[tensor];
  if (!sum.whole) {
    sum.whole = view;
    return;
  }
  const View both = new_gradient(tensor);
  emit_sum(tensor, view, sum.whole, both, view.operand, both.operand);
  gradients_[tensor].whole = both;
}

void FragmentWriter::emit_sum(TensorId tensor, const View& from, const std::optional<View>& addend,
                              const View& to, const Operand& shape, const Operand& result) {
  GraphOp name;
  name.name = graph().tensors[tensor.index()].name;
  KernelDraft call(KernelKind::Sum, Phase::InputGradient, name);
  call.read(from, shape);
  emit(call.addend(addend, result).write(to, result));
}

View FragmentWriter::gradient(TensorId tensor) {
  for (const Pending& pending : std::exchange(gradients_[tensor].pending, {})) {
    const View end = are_in_place(pending.steps) ? pending.view : new_gradient(tensor);
    emit_steps(pending.steps, pending.layout, pending.view, end,
               "d " + graph().tensors[tensor.index()].name);
    add_whole(tensor, end);
  }
  assert(gradients_[tensor].whole);
  return *gradients_[tensor].whole;
}

void FragmentWriter::join_pieces(std::size_t split) {
  for (const TensorId tensor : graph().ops[split].outputs) {
    if (gradients_[tensor].pending.empty()) continue;
    const View finished = gradient(tensor);
    const View target = whole_target(tensor);
    emit_sum(tensor, finished, std::nullopt, target, finished.operand, target.operand);
  }
  if (const auto whole = pieces_.find(split); whole != pieces_.end()) {
    add_gradient(split, 0, whole->second);
  }
}

bool FragmentWriter::moves_gradients(std::size_t op) const {
  for (std::size_t i = 0; i < graph().ops[op].weights.size(); ++i) {
    if (!planned_.steps(op, &OpRelayouts::weight_gradients, i).empty()) return true;
  }
  return false;
}

View FragmentWriter::weight_gradient(std::size_t op, std::size_t weight) {
  const WeightId id = graph().ops[op].weights[weight];
  const Layout& layout = layouts(op).weights[weight];
  if (!moves_gradients(op)) return weight_view({op, id, true}, layout);
  const View computed = new_view("d " + graph().weights[id.index()].name, shards_.sizes(layout),
                                 gradient_element(plan_), Component::Transfers);
  return computed_gradients_.insert_or_assign(weight, computed).first->second;
}

void FragmentWriter::emit_gradients(std::size_t op, KernelDraft& call) {
  if (!moves_gradients(op)) return emit(call.computes_gradients(op, graph().ops[op].weights));
  emit(call);
  keep_gradients(op);
}

void FragmentWriter::keep_gradients(std::size_t op) {
  add_scattered();
  for (const auto& [weight, view] : std::exchange(computed_gradients_, {})) {
    keep_gradient(op, weight, view);
  }
}

// Its part of the sum over devices is added to what earlier micro-batches left, when the gradients
// of the next op are computed: until then it is scattered.
void FragmentWriter::keep_gradient(std::size_t op, std::size_t weight, View view) {
  GraphOp named;
  const WeightId id = graph().ops[op].weights[weight];
  named.name = "d " + graph().weights[id.index()].name;
  const std::size_t first = tasks_->size();
  const Layout& kept = planned_.op(op).weights[weight];
  const RelayoutSteps& steps = planned_.steps(op, &OpRelayouts::weight_gradients, weight);
  const View own = are_in_place(steps) ? view
                                       : new_view(named.name, shards_.sizes(kept),
                                                  view.operand.element, Component::Transfers);
  emit_steps(steps, layouts(op).weight_gradients[weight], view, own, named.name,
             Purpose::Gradients);
  for (std::size_t t = first; t < tasks_->size(); ++t) {
    (*tasks_)[t].phase = Phase::WeightGradient;
  }
  KernelDraft sum(KernelKind::Sum, Phase::InputGradient, named);
  sum.read(own).write(weight_view({op, id, true}, kept)).computes_gradients(op, {id});
  scattered_.push_back(sum.take());
  scattered_.back().phase = Phase::WeightGradient;
}

void FragmentWriter::add_scattered() {
  for (FragmentTask& sum : std::exchange(scattered_, {})) add_task(std::move(sum));
}

View FragmentWriter::output_gradient(std::size_t op) {
  const TensorId tensor = graph().ops[op].outputs[0];
  const View kept = gradient(tensor);
  const RelayoutSteps& steps = planned_.steps(op, &OpRelayouts::output_gradients, 0);
  if (steps.empty()) return kept;
  const std::string name = "d " + graph().tensors[tensor.index()].name;
  const View read = new_view(name, shards_.sizes(layouts(op).outputs[0]), BufferElement::Real,
                             Component::Transfers);
  emit_steps(steps, planned_.tensors[tensor.index()], kept, read, name);
  return read;
}

}  // namespace meshwright

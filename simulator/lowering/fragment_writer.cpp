#include "simulator/lowering/fragment_writer.h"

#include <algorithm>
#include <cassert>

#include "costmodel/base/checked.h"
#include "costmodel/kernel/operand_use.h"
#include "simulator/lowering/narrow_operands.h"
#include "simulator/lowering/ops/op_lowering.h"
#include "simulator/lowering/recompute.h"

namespace meshwright {
Fragment FragmentWriter::write() {
  tasks_ = &fragment_.forward;
  versions_.emplace_back();
  for (op_ = range_.first_op; op_ < range_.end_op; ++op_) forward(op_);
  const std::set<Message> crossings = find_crossings();
  if (edges_ == FragmentEdges::Messages) {
    for (const Message& message : crossings) send(value(message.tensor), message);
  }
  tasks_ = &fragment_.backward;
  moved_.clear();
  for (const Message& message : crossings) receive_gradient(message);
  for (std::size_t op = range_.end_op; op-- > range_.first_op;) {
    // Layers are alike, whatever stands around them.
    if (op_ < range_.end_op && planned_.repetition[op] != planned_.repetition[op_]) add_scattered();
    op_ = op;
    if (!needs_gradient(graph().ops[op].outputs[0])) continue;
    open_segments(op);
    backward(op);
  }
  add_scattered();
  for (const Message& message : received_) {
    if (!needs_gradient(message.tensor)) continue;
    const View view = gradient(message.tensor);
    if (edges_ == FragmentEdges::Messages) send(view, message);
  }
  drop_unread(fragment_);
  place_gathers(fragment_.forward);
  place_gathers(fragment_.backward);
  if (plan_.precision == Precision::FP8) narrow_operands(fragment_);
  return std::move(fragment_);
}

void FragmentWriter::place_gathers(std::vector<FragmentTask>& tasks) const {
  const auto gathers = [](const FragmentTask& task) {
    const auto* transfer = std::get_if<Transfer>(&task.work);
    return transfer && transfer->purpose == Purpose::Weights;
  };
  if (std::ranges::none_of(tasks, gathers)) return;
  std::vector<FragmentTask> placed;
  placed.reserve(tasks.size());
  std::size_t before = 0;  // the latest product of the layer, or all of it
  std::optional<std::uint32_t> layer;
  for (FragmentTask& task : tasks) {
    // Messages stand behind the last op.
    const std::uint32_t own = planned_.repetition[std::min(task.op, range_.end_op - 1)];
    if (layer != own) before = placed.size();
    layer = own;
    const auto* kernel = std::get_if<Kernel>(&task.work);
    if (gathers(task)) {
      task.waits_for_compute = true;
      placed.insert(placed.begin() + static_cast<std::ptrdiff_t>(before++), std::move(task));
      continue;
    }
    if (kernel && kernel->kind == KernelKind::Matmul) before = placed.size();
    placed.push_back(std::move(task));
  }
  tasks = std::move(placed);
}

std::set<Message> FragmentWriter::find_crossings() const {
  std::set<Message> crossings;
  for (std::size_t op = range_.first_op; op < range_.end_op; ++op) {
    for (const TensorId tensor : graph().ops[op].outputs) {
      for (const std::size_t reader : planned_.readers[tensor.index()]) {
        if (!range_.contains(reader)) crossings.insert({chunk_of(plan_, reader), tensor});
      }
    }
  }
  return crossings;
}

void FragmentWriter::forward(std::size_t op) {
  for (const TensorId input : graph().ops[op].inputs) value(input);
  lowering_of(graph().ops[op].kind)->forward(*this, op);
}

void FragmentWriter::backward(std::size_t op) {
  const OpLowering* lowering = lowering_of(graph().ops[op].kind);
  if (lowering->backward) lowering->backward(*this, op);
}

FragmentBufferId FragmentWriter::add_buffer(FragmentBuffer buffer) {
  fragment_.buffers.push_back(std::move(buffer));
  return FragmentBufferId(fragment_.buffers.size() - 1);
}

View FragmentWriter::new_view(const std::string& name, Extents sizes, BufferElement element,
                              Component component) {
  const std::int64_t count = checked_product(sizes);
  return {add_buffer({{.name = name, .count = count, .element = element, .component = component}}),
          dense_operand(std::move(sizes), element)};
}

View FragmentWriter::new_output(TensorId tensor) {
  const Tensor& entry = graph().tensors[tensor.index()];
  const std::size_t producer = planned_.producer[tensor.index()];
  // Tensors of repeated blocks share a name, their ops do not.
  std::string name = entry.name;
  if (producer < graph().ops.size()) {
    name = graph().ops[producer].name;
    if (graph().ops[producer].outputs.size() > 1) {
      name += entry.name.substr(entry.name.find_last_of('.'));
    }
  }
  return new_tensor(name, tensor,
                    entry.element == Element::Index ? BufferElement::Index : BufferElement::Real);
}

View FragmentWriter::new_tensor(const std::string& name, TensorId tensor, BufferElement element) {
  Extents sizes = shards_.sizes(planned_.tensors[tensor.index()]);
  const auto dispatch = planned_.dispatch[tensor.index()];
  if (dispatch) return new_rows(name, *dispatch, sizes.back());
  return new_view(name, std::move(sizes), element);
}

View FragmentWriter::weight_view(const WeightOfOp& weight, const Layout& layout) {
  const BufferElement element = weight.gradient ? gradient_element(plan_) : BufferElement::Real;
  Extents sizes = shards_.sizes(layout);
  const auto [entry, added] =
      weights_.try_emplace(weight, FragmentBufferId(fragment_.buffers.size()));
  if (added) {
    add_buffer({{.name = graph().weights[weight.weight.index()].name,
                 .count = checked_product(sizes),
                 .element = element,
                 .component = weight.gradient ? Component::Gradients : Component::Weights,
                 .persistent = true},
                weight});
  }
  return {entry->second, dense_operand(std::move(sizes), element)};
}

View FragmentWriter::kept_weight(std::size_t op, std::size_t weight) {
  return weight_view({op, graph().ops[op].weights[weight], false}, kept_layout(op, weight));
}

View FragmentWriter::weight(std::size_t op, std::size_t weight) {
  const WeightId id = graph().ops[op].weights[weight];
  const View kept = kept_weight(op, weight);
  const RelayoutSteps& steps = planned_.steps(op, &OpRelayouts::weights, weight);
  if (steps.empty()) return kept;
  const std::string& name = graph().weights[id.index()].name;
  const View read = new_view(name, shards_.sizes(layouts(op).weights[weight]), BufferElement::Real,
                             Component::Transfers);
  emit_steps(steps, kept_layout(op, weight), kept, read, name, Purpose::Weights);
  return read;
}

bool FragmentWriter::trains(std::size_t op) const {
  return !graph().weights[graph().ops[op].weights[0].index()].frozen;
}

View FragmentWriter::loss_sum() {
  if (!loss_) {
    loss_ = add_buffer({{.name = "loss",
                         .count = 1,
                         .element = BufferElement::Double,
                         .component = Component::Workspace,
                         .persistent = true},
                        LossSum()});
  }
  return {*loss_, dense_operand({1}, BufferElement::Double)};
}

std::vector<AxisId> FragmentWriter::axes_beside(std::vector<AxisId> axes,
                                                const std::vector<AxisId>& others) {
  std::erase_if(axes, [&](AxisId axis) { return std::ranges::count(others, axis) > 0; });
  return axes;
}

void FragmentWriter::emit(KernelDraft& call) {
  count_rows(call);
  add_task(call.take());
}

void FragmentWriter::emit_now(KernelDraft& call) {
  count_rows(call);
  FragmentTask task = call.take();
  task.phase = phase();
  add_task(std::move(task));
}

void FragmentWriter::add_task(FragmentTask task) {
  task.op = op_;
  if (rerunning_) {
    task.phase = Phase::InputGradient;
    task.recompute = true;
    task.needless = versions_.back().segment->rerun_all;
  }
  tasks_->push_back(std::move(task));
}

const View& FragmentWriter::value(TensorId tensor) {
  for (auto version = versions_.rbegin(); version != versions_.rend(); ++version) {
    const auto found = version->values.find(tensor);
    if (found != version->values.end()) return found->second;
  }
  const View view = new_output(tensor);
  const std::size_t producer = planned_.producer[tensor.index()];
  if (producer >= graph().ops.size()) {
    KernelDraft load(KernelKind::Load, Phase::Forward, GraphOp{});
    load.kernel().name = graph().tensors[tensor.index()].name;
    load.kernel().place = shards_.place(planned_.tensors[tensor.index()]);
    emit(load.write(view));
  } else {
    const Message message{chunk_of(plan_, producer), tensor};
    if (edges_ == FragmentEdges::Messages) {
      receive(view, message);
    } else {
      fragment_.buffers[view.buffer.index()].buffer.persistent = true;
    }
    received_.insert(message);
  }
  return versions_.front().values.emplace(tensor, view).first->second;
}

void FragmentWriter::set_value(TensorId tensor, const View& view) {
  Version& version = versions_.back();
  if (!version.kept.contains(tensor)) version.values.emplace(tensor, view);
}

View FragmentWriter::input(std::size_t op, std::size_t input, Phase phase) {
  const TensorId tensor = graph().ops[op].inputs[input];
  const RelayoutSteps& steps = planned_.steps(op, &OpRelayouts::inputs, input);
  const View kept = value(tensor);
  if (steps.empty()) return kept;
  const bool with_weights =
      tasks_ == &fragment_.backward && !rerunning_ && phase == Phase::WeightGradient;
  const MovedInput key{tensor, layouts(op).inputs[input]};
  if (const auto found = moved_.find(key); found != moved_.end()) {
    const Moved& moved = found->second;
    for (std::size_t t = moved.first_task; t < moved.end_task && !with_weights; ++t) {
      (*tasks_)[t].phase = this->phase();
    }
    return moved.view;
  }
  // Pieces of a split tensor may be kept, and what is kept has a name of its own.
  const bool split = graph().ops[op].kind == OpKind::Split;
  const std::string& name = split ? graph().ops[op].name : graph().tensors[tensor.index()].name;
  Moved moved{
      .view = new_view(name, shards_.sizes(key.layout), kept.operand.element, Component::Transfers),
      .first_task = tasks_->size()};
  emit_steps(steps, planned_.tensors[tensor.index()], kept, moved.view, name);
  moved.end_task = tasks_->size();
  for (std::size_t t = moved.first_task; t < moved.end_task && with_weights; ++t) {
    (*tasks_)[t].phase = Phase::WeightGradient;
  }
  return moved_.emplace(key, moved).first->second.view;
}

FragmentWriter::Output FragmentWriter::start_output(std::size_t op, std::size_t output) {
  const TensorId tensor = graph().ops[op].outputs[output];
  const View kept = new_output(tensor);
  set_value(tensor, kept);
  const RelayoutSteps& steps = planned_.steps(op, &OpRelayouts::outputs, output);
  const auto moves =
      std::ranges::count_if(steps, [&](const RelayoutStep& step) { return !is_in_place(step); });
  Extents sizes = shards_.sizes(layouts(op).outputs[output]);
  // The first of several moves has read what the last one writes over.
  if (moves == 0 || (moves > 1 && sizes == kept.operand.sizes)) return {kept, kept};
  return {new_view(graph().tensors[tensor.index()].name, std::move(sizes), BufferElement::Real,
                   Component::Transfers),
          kept};
}

View FragmentWriter::output(std::size_t op, std::size_t output) {
  const TensorId tensor = graph().ops[op].outputs[output];
  // A result that was moved is moved back: it is cut as its gradient is.
  const RelayoutSteps& steps = planned_.steps(op, &OpRelayouts::output_gradients, output);
  const View kept = value(tensor);
  if (steps.empty()) return kept;
  const std::string& name = graph().tensors[tensor.index()].name;
  const View again = new_view(name, shards_.sizes(layouts(op).outputs[output]), BufferElement::Real,
                              Component::Transfers);
  emit_steps(steps, planned_.tensors[tensor.index()], kept, again, name);
  return again;
}

void FragmentWriter::finish_output(std::size_t op, const Output& output) {
  emit_steps(planned_.steps(op, &OpRelayouts::outputs, 0), layouts(op).outputs[0], output.computed,
             output.kept, graph().tensors[graph().ops[op].outputs[0].index()].name);
}

void FragmentWriter::keep(std::size_t op, const KeptShape& shape,
                          const std::vector<Statistic>& statistics) {
  const GraphOp& entry = graph().ops[op];
  auto& kept = versions_.back().statistics[op];
  if (plan_.kernels == KernelSet::Executor) {
    for (const Statistic& statistic : statistics) {
      kept.push_back(
          new_view(entry.name + "." + statistic.name, statistic.sizes, state_element(plan_)));
    }
    return;
  }
  const Bytes element = bytes_per_element(BufferElement::Real, plan_.precision);
  const Bytes bytes = kept_beside(plan_.kernels, entry.kind, entry.attributes, shape, element);
  if (bytes > 0_B) {
    kept.push_back(new_view(entry.name + ".kept", {bytes.value()}, BufferElement::Byte));
  }
}

void FragmentWriter::set_statistics(std::size_t op, std::vector<View> views) {
  versions_.back().statistics[op] = std::move(views);
}

const std::vector<View>& FragmentWriter::statistics(std::size_t op) const {
  const auto version = std::find_if(versions_.rbegin(), versions_.rend(),
                                    [&](const Version& v) { return v.statistics.contains(op); });
  return version->statistics.at(op);
}

void FragmentWriter::add_workspace(std::size_t op, const KeptShape& shape, KernelDraft& call) {
  const Bytes element = bytes_per_element(BufferElement::Real, plan_.precision);
  add_workspace(op, workspace_of(plan_.kernels, graph().ops[op].kind, shape, element), call);
}

void FragmentWriter::add_workspace(std::size_t op, Bytes bytes, KernelDraft& call) {
  if (bytes == 0_B) return;
  call.write(new_view(graph().ops[op].name + ".workspace", {bytes.value()}, BufferElement::Byte,
                      Component::Workspace));
}

void FragmentWriter::open_segments(std::size_t op) {
  const auto contains = [&](const RecomputeSegment& s) {
    return s.first_op <= op && op < s.end_op;
  };
  while (versions_.size() > 1 && !contains(*versions_.back().segment)) {
    versions_.pop_back();
    moved_.clear();
  }
  for (;;) {
    const RecomputeSegment* around = versions_.back().segment;
    const auto& segments = around ? around->inner : plan_.recompute;
    const auto found = std::partition_point(segments.begin(), segments.end(),
                                            [&](const auto& s) { return s.end_op <= op; });
    if (found == segments.end() || !contains(*found)) return;
    if (found->first_op < range_.first_op || found->end_op > range_.end_op) return;
    rerun(*found);
  }
}

void FragmentWriter::rerun(const RecomputeSegment& segment) {
  Version version{.segment = &segment};
  const std::set<std::string_view> kept(segment.kept.begin(), segment.kept.end());
  for (std::size_t op = segment.first_op; op < segment.end_op && !kept.empty(); ++op) {
    for (const TensorId tensor : graph().ops[op].outputs) {
      if (kept.contains(graph().tensors[tensor.index()].name)) version.kept.insert(tensor);
    }
  }
  versions_.push_back(std::move(version));
  moved_.clear();
  rerunning_ = true;
  for (std::size_t op = segment.first_op; op < segment.end_op; ++op) {
    const auto& outputs = graph().ops[op].outputs;
    const bool all_kept = std::ranges::all_of(
        outputs, [&](TensorId tensor) { return versions_.back().kept.contains(tensor); });
    if (!all_kept) forward(op);
  }
  rerunning_ = false;
  moved_.clear();
}

bool writes_operand(const FragmentTask& task, std::size_t operand) {
  return std::visit([&](const auto& work) { return writes_operand(work, operand); }, task.work);
}

Fragment lower_fragment(const PlannedGraph& planned, const Plan& plan, const Placement& placement,
                        const OpRange& range, FragmentEdges edges) {
  return FragmentWriter(planned, plan, placement, range, edges).write();
}

}  // namespace meshwright

#include "simulator/lowering/chunk_lowering.h"

#include <algorithm>
#include <cassert>

#include "costmodel/base/checked.h"
#include "simulator/lowering/recompute.h"

namespace meshwright {

Fragment ChunkLowering::lower() {
  tasks_ = &fragment_.forward;
  versions_.emplace_back();
  for (op_ = chunk_.first_op; op_ < chunk_.end_op; ++op_) forward(op_);
  const std::set<Message> crossings = find_crossings();
  for (const Message& message : crossings) send(value(message.tensor), message);
  tasks_ = &fragment_.backward;
  gathered_.clear();
  for (const Message& message : crossings) receive_gradient(message);
  for (std::size_t op = chunk_.end_op; op-- > chunk_.first_op;) {
    op_ = op;
    if (!needs_gradient(graph_.ops[op].outputs[0])) continue;
    open_segments(op);
    backward(op);
  }
  for (const Message& message : received_) send_gradient(message);
  drop_unread(fragment_);
  return std::move(fragment_);
}

std::set<Message> ChunkLowering::find_crossings() const {
  std::set<Message> crossings;
  for (std::size_t op = chunk_.first_op; op < chunk_.end_op; ++op) {
    for (const TensorId tensor : graph_.ops[op].outputs) {
      for (const std::size_t reader : planned_.readers[tensor.index()]) {
        if (!in_chunk(reader)) crossings.insert({chunk_of(plan_, reader), tensor});
      }
    }
  }
  return crossings;
}

FragmentBufferId ChunkLowering::add_buffer(std::string name, std::int64_t count,
                                           BufferElement element, Component component) {
  fragment_.buffers.push_back(
      {{.name = std::move(name), .count = count, .element = element, .component = component}});
  return FragmentBufferId(fragment_.buffers.size() - 1);
}

FragmentBufferId ChunkLowering::persistent(BufferId id) {
  const auto [entry, added] =
      persistent_.try_emplace(id, FragmentBufferId(fragment_.buffers.size()));
  if (added) fragment_.buffers.push_back({program_.buffers[id.index()], id});
  return entry->second;
}

FragmentBufferId ChunkLowering::whole_bucket(std::size_t bucket, Component component) {
  const WholeBucket whole{bucket, component};
  const auto [entry, added] = whole_.try_emplace(whole, FragmentBufferId(fragment_.buffers.size()));
  if (added) fragment_.buffers.push_back({.buffer = {}, .whole = whole});
  return entry->second;
}

View ChunkLowering::new_view(const std::string& name, std::vector<std::int64_t> sizes,
                             BufferElement element, Component component) {
  const std::int64_t count = checked_product(sizes);
  return {add_buffer(name, count, element, component), dense_operand(std::move(sizes), element)};
}

View ChunkLowering::new_output(TensorId tensor) {
  const Tensor& entry = graph_.tensors[tensor.index()];
  const std::size_t producer = planned_.producer[tensor.index()];
  // Tensors of repeated blocks share a name, their ops do not.
  const bool by_op = producer < graph_.ops.size() && graph_.ops[producer].outputs.size() == 1;
  return new_view(by_op ? graph_.ops[producer].name : entry.name, sharding_.sizes(tensor),
                  entry.element == Element::Index ? BufferElement::Index : BufferElement::Real);
}

void ChunkLowering::emit(KernelDraft& call) { add_task(std::move(call.task())); }

void ChunkLowering::add_task(FragmentTask task) {
  task.op = op_;
  if (rerunning_) {
    task.part = KernelPart::InputGradient;
    task.recompute = true;
    task.needless = versions_.back().segment->rerun_all;
  }
  tasks_->push_back(std::move(task));
}

void ChunkLowering::emit_transfer(const View& view, TransferKind kind, Purpose purpose,
                                  std::vector<DeviceId> group, Reduction reduction) {
  FragmentTask task{.kind = TaskKind::Transfer};
  task.transfer = {
      .kind = kind, .reduction = reduction, .purpose = purpose, .group = std::move(group)};
  if (kind != TransferKind::Receive) task.transfer.source = view.operand;
  if (kind != TransferKind::Send) task.transfer.target = view.operand;
  task.operands.assign(is_pair(kind) ? 1 : 2, view.buffer);
  task.part = tasks_ == &fragment_.forward ? KernelPart::Forward : KernelPart::InputGradient;
  add_task(std::move(task));
}

void ChunkLowering::all_reduce(const View& view, Reduction reduction) {
  emit_transfer(view, TransferKind::AllReduce, Purpose::Tensor, placement_.group("tp"), reduction);
}

void ChunkLowering::all_gather(TensorId tensor, const View& part, const View& whole) {
  move_parts(TransferKind::AllGather, tensor, part, whole);
}

void ChunkLowering::reduce_scatter(TensorId tensor, const View& whole, const View& part) {
  move_parts(TransferKind::ReduceScatter, tensor, whole, part);
}

void ChunkLowering::move_parts(TransferKind kind, TensorId tensor, const View& from,
                               const View& to) {
  emit_transfer(from, kind, Purpose::Tensor, placement_.group("tp"));
  FragmentTask& task = tasks_->back();
  task.operands = {from.buffer, to.buffer};
  task.transfer.target = to.operand;
  const auto& dims = graph_.tensors[tensor.index()].dims;
  const auto cut = std::ranges::find_if(
      dims, [&](DimId dim) { return graph_.dims[dim.index()].role == DimRole::Sequence; });
  task.transfer.source_cut.dim = task.transfer.target_cut.dim =
      static_cast<std::size_t>(cut - dims.begin());
}

void ChunkLowering::send(const View& view, const Message& message) {
  emit_transfer(view, TransferKind::Send, Purpose::Pipeline,
                {placement_.device(), placement_.peer(plan_.chunks[message.chunk].slot)});
}

void ChunkLowering::receive(const View& view, const Message& message) {
  emit_transfer(view, TransferKind::Receive, Purpose::Pipeline,
                {placement_.peer(plan_.chunks[message.chunk].slot), placement_.device()});
  tasks_->back().received = message;
}

const View& ChunkLowering::value(TensorId tensor) {
  for (auto version = versions_.rbegin(); version != versions_.rend(); ++version) {
    const auto found = version->values.find(tensor);
    if (found != version->values.end()) return found->second;
  }
  const View view = new_output(tensor);
  const std::size_t producer = planned_.producer[tensor.index()];
  if (producer < graph_.ops.size()) {
    const Message message{chunk_of(plan_, producer), tensor};
    receive(view, message);
    received_.insert(message);
  } else {
    KernelDraft load(KernelKind::Load, KernelPart::Forward, GraphOp{});
    load.kernel().name = graph_.tensors[tensor.index()].name;
    load.kernel().place = sharding_.place(tensor);
    emit(load.write(view));
  }
  return versions_.front().values.emplace(tensor, view).first->second;
}

const std::vector<View>& ChunkLowering::statistics(std::size_t op) const {
  const auto version = std::find_if(versions_.rbegin(), versions_.rend(),
                                    [&](const Version& v) { return v.statistics.contains(op); });
  return version->statistics.at(op);
}

View ChunkLowering::gathered_input(std::size_t op) {
  const TensorId tensor = graph_.ops[op].inputs[0];
  if (!sharding_.gathers(op)) return value(tensor);
  if (const auto found = gathered_.find(tensor); found != gathered_.end()) return found->second;
  const View whole = new_view(graph_.tensors[tensor.index()].name, sharding_.work_sizes(op, tensor),
                              BufferElement::Real, Component::Transfers);
  all_gather(tensor, value(tensor), whole);
  // In the backward only gradients of weights need it.
  if (tasks_ == &fragment_.backward && !rerunning_) {
    tasks_->back().part = KernelPart::WeightGradient;
  }
  return gathered_.emplace(tensor, whole).first->second;
}

View ChunkLowering::partial_output(std::size_t op, const View& result) {
  if (!sharding_.scatters(op)) return result;
  const TensorId tensor = graph_.ops[op].outputs[0];
  return new_view(graph_.tensors[tensor.index()].name, sharding_.work_sizes(op, tensor),
                  BufferElement::Real, Component::Transfers);
}

void ChunkLowering::sum_output(std::size_t op, const View& partial, const View& result) {
  if (!sharding_.scatters(op)) return all_reduce(result);
  reduce_scatter(graph_.ops[op].outputs[0], partial, result);
}

void ChunkLowering::open_segments(std::size_t op) {
  const auto contains = [&](const RecomputeSegment& s) {
    return s.first_op <= op && op < s.end_op;
  };
  while (versions_.size() > 1 && !contains(*versions_.back().segment)) {
    versions_.pop_back();
    gathered_.clear();
  }
  for (;;) {
    const RecomputeSegment* around = versions_.back().segment;
    const auto& segments = around ? around->inner : plan_.recompute;
    const auto found = std::partition_point(segments.begin(), segments.end(),
                                            [&](const auto& s) { return s.end_op <= op; });
    if (found == segments.end() || !contains(*found)) return;
    rerun(*found);
  }
}

void ChunkLowering::rerun(const RecomputeSegment& segment) {
  Version version{.segment = &segment};
  const std::set<std::string_view> kept(segment.kept.begin(), segment.kept.end());
  for (std::size_t op = segment.first_op; op < segment.end_op && !kept.empty(); ++op) {
    for (const TensorId tensor : graph_.ops[op].outputs) {
      if (kept.contains(graph_.tensors[tensor.index()].name)) version.kept.insert(tensor);
    }
  }
  versions_.push_back(std::move(version));
  gathered_.clear();
  rerunning_ = true;
  for (std::size_t op = segment.first_op; op < segment.end_op; ++op) {
    const auto& outputs = graph_.ops[op].outputs;
    const bool all_kept = std::ranges::all_of(
        outputs, [&](TensorId tensor) { return versions_.back().kept.contains(tensor); });
    if (!all_kept) forward(op);
  }
  rerunning_ = false;
  gathered_.clear();
}

View ChunkLowering::weight(std::size_t op, WeightId id) {
  const WeightUsed& use = weights_.use(op, id);
  const WeightShard& shard = program_.weights[use.shard];
  const bool shards = weights_.buckets[use.bucket].shards_weights;
  return {shards ? whole_bucket(use.bucket, Component::Weights) : persistent(shard.weight),
          dense_operand(shard.sizes, BufferElement::Real, shard.offset)};
}

View ChunkLowering::weight_gradient(std::size_t op, WeightId id) {
  const WeightUsed& use = weights_.use(op, id);
  const WeightShard& shard = program_.weights[use.shard];
  const BufferElement element = gradient_element(plan_);
  if (use.own_gradient) {
    return {persistent(*use.own_gradient), dense_operand(shard.sizes, element)};
  }
  const bool shards = weights_.buckets[use.bucket].shards_gradients;
  return {shards ? whole_bucket(use.bucket, Component::Gradients) : persistent(*shard.gradient),
          dense_operand(shard.sizes, element, shard.offset)};
}

Operand ChunkLowering::weight_matrix(std::size_t op, const View& view) const {
  const GraphOp& entry = graph_.ops[op];
  const auto& dims = graph_.weights[entry.weights[0].index()].dims;
  const auto& result = graph_.tensors[entry.outputs[0].index()].dims;
  const auto is_in = [&](DimId dim) {
    return std::find(result.begin(), result.end(), dim) == result.end();
  };
  const auto ins = static_cast<std::size_t>(std::count_if(dims.begin(), dims.end(), is_in));
  if (is_in(dims.front())) return as_matrix(view.operand, dims.size() - ins);
  const Operand stored = as_matrix(view.operand, ins);  // [out, in]
  return {.offset = stored.offset,
          .sizes = {stored.sizes[1], stored.sizes[0]},
          .strides = {1, stored.sizes[1]},
          .element = stored.element};
}

std::size_t ChunkLowering::contracted(std::size_t op) const {
  const GraphOp& entry = graph_.ops[op];
  const auto& x = graph_.tensors[entry.inputs[0].index()].dims;
  const auto& y = graph_.tensors[entry.outputs[0].index()].dims;
  return static_cast<std::size_t>(std::count_if(x.begin(), x.end(), [&](DimId dim) {
    return std::find(y.begin(), y.end(), dim) == y.end();
  }));
}

bool ChunkLowering::gives_partial(std::size_t op) const {
  const GraphOp& entry = graph_.ops[op];
  const auto& y = graph_.tensors[entry.outputs[0].index()].dims;
  const auto& w = graph_.weights[entry.weights[0].index()].dims;
  return std::any_of(w.begin(), w.end(), [&](DimId dim) {
    return std::find(y.begin(), y.end(), dim) == y.end() && sharding_.is_split(op, dim);
  });
}

bool ChunkLowering::gives_partial_gradient(std::size_t op) const {
  const GraphOp& entry = graph_.ops[op];
  const auto& x = graph_.tensors[entry.inputs[0].index()].dims;
  const auto& w = graph_.weights[entry.weights[0].index()].dims;
  return std::any_of(w.begin(), w.end(), [&](DimId dim) {
    return std::find(x.begin(), x.end(), dim) == x.end() && sharding_.is_split(op, dim);
  });
}

Fragment lower_chunk(const Program& program, const PlannedGraph& planned, const Plan& plan,
                     const Placement& placement, const OpSharding& sharding,
                     const WeightBuckets& weights, std::size_t chunk) {
  return ChunkLowering(program, planned, plan, placement, sharding, weights, chunk).lower();
}

}  // namespace meshwright

#include <algorithm>
#include <cassert>

#include "simulator/lowering/chunk_lowering.h"

namespace meshwright {

void ChunkLowering::forward(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  for (const TensorId input : entry.inputs) value(input);
  switch (entry.kind) {
    case OpKind::Embedding:
      return forward_embedding(op);
    case OpKind::Matmul:
      return forward_matmul(op);
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
      return forward_norm(op);
    case OpKind::Attention:
      return forward_attention(op);
    case OpKind::Rope:
    case OpKind::Activation:
    case OpKind::GatedActivation:
    case OpKind::Scale:
    case OpKind::Dropout:
      return forward_elementwise(op);
    case OpKind::Add:
      return forward_add(op);
    case OpKind::Split:
      return forward_split(op);
    case OpKind::CrossEntropy:
      return forward_loss(op);
    default:
      assert(!"check_plan refuses other kinds");
  }
}

View ChunkLowering::set_output(std::size_t op) {
  const TensorId tensor = graph_.ops[op].outputs[0];
  const View view = new_output(tensor);
  set_value(tensor, view);
  return view;
}

void ChunkLowering::set_value(TensorId tensor, const View& view) {
  Version& version = versions_.back();
  if (!version.kept.contains(tensor)) version.values.emplace(tensor, view);
}

void ChunkLowering::forward_embedding(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View table = weight(op, entry.weights[0]);
  const View y = set_output(op);
  const View& index = value(entry.inputs[0]);
  KernelDraft call(KernelKind::Embedding, KernelPart::Forward, entry);
  call.kernel().first_row = first_row(op);
  call.read(index, as_row(index.operand)).read(table, as_matrix(table.operand, table_columns(op)));
  if (!gives_partial(op)) {
    emit(call.write(y, as_matrix(y.operand, table_columns(op))));
    return;
  }
  const View partial = partial_output(op, y);
  emit(call.write(partial, as_matrix(partial.operand, table_columns(op))));
  sum_output(op, partial, y);
}

std::size_t ChunkLowering::table_columns(std::size_t op) const {
  return graph_.weights[graph_.ops[op].weights[0].index()].dims.size() - 1;
}

std::int64_t ChunkLowering::first_row(std::size_t op) const {
  return sharding_.share(op, graph_.weights[graph_.ops[op].weights[0].index()].dims[0]).start;
}

void ChunkLowering::forward_matmul(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View matrix = weight(op, entry.weights[0]);
  const View y = set_output(op);
  const View x = gathered_input(op);
  const Operand shape = weight_matrix(op, matrix);
  const bool partial = gives_partial(op);
  const View written = partial ? partial_output(op, y) : y;
  KernelDraft call(KernelKind::Matmul, KernelPart::Forward, entry);
  call.read(x, as_matrix(x.operand, contracted(op))).read(matrix, shape);
  if (entry.weights.size() == 2 && !partial) {
    const View bias = weight(op, entry.weights[1]);
    call.read(bias, as_row(bias.operand));
  }
  emit(call.write(written, as_rows(written.operand, shape.sizes[1])));
  if (!partial) return;
  sum_output(op, written, y);
  if (entry.weights.size() == 2) add_bias(op, y, as_rows(y.operand, shape.sizes[1]));
}

void ChunkLowering::add_bias(std::size_t op, const View& y, const Operand& shape) {
  const View bias = weight(op, graph_.ops[op].weights[1]);
  Operand row = as_row(bias.operand);
  row.sizes = shape.sizes;
  row.strides = {0, 1};
  KernelDraft call(KernelKind::Add, KernelPart::Forward, graph_.ops[op]);
  emit(call.read(y, shape).read(bias, row).write(y, shape));
}

void ChunkLowering::forward_norm(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View y = set_output(op);
  const View& x = value(entry.inputs[0]);
  const std::size_t columns = norm_columns(op);
  const Operand shape = as_matrix(x.operand, columns);
  std::vector<Statistic> names;
  if (entry.kind == OpKind::LayerNorm) names.push_back({"mean", {shape.sizes[0]}});
  names.push_back({"scale", {shape.sizes[0]}});
  keep(op, {.rows = shape.sizes[0]}, names);
  KernelDraft call(norm_kernel(entry), KernelPart::Forward, entry);
  call.read(x, shape);
  for (const WeightId id : entry.weights) {
    const View w = weight(op, id);
    call.read(w, as_row(w.operand));
  }
  call.write(y, shape);
  for (const View& kept : statistics(op)) call.write(kept);
  emit(call);
}

KernelKind ChunkLowering::norm_kernel(const GraphOp& op) {
  return op.kind == OpKind::LayerNorm ? KernelKind::LayerNorm : KernelKind::RmsNorm;
}

std::size_t ChunkLowering::norm_columns(std::size_t op) const {
  return graph_.weights[graph_.ops[op].weights[0].index()].dims.size();
}

void ChunkLowering::keep(std::size_t op, const KeptShape& shape,
                         const std::vector<Statistic>& statistics) {
  const GraphOp& entry = graph_.ops[op];
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

void ChunkLowering::add_workspace(std::size_t op, const KeptShape& shape, KernelDraft& call) {
  const GraphOp& entry = graph_.ops[op];
  const Bytes element = bytes_per_element(BufferElement::Real, plan_.precision);
  add_workspace(op, workspace_of(plan_.kernels, entry.kind, shape, element), call);
}

void ChunkLowering::add_workspace(std::size_t op, Bytes bytes, KernelDraft& call) {
  if (bytes == 0_B) return;
  const GraphOp& entry = graph_.ops[op];
  call.write(new_view(entry.name + ".workspace", {bytes.value()}, BufferElement::Byte,
                      Component::Workspace));
}

KeptShape ChunkLowering::attention_shape(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const Operand q = as_heads(value(entry.inputs[0]).operand);
  const Operand k = as_heads(value(entry.inputs[1]).operand);
  return {.rows = q.sizes[0] * q.sizes[1] * q.sizes[2], .keys = k.sizes[1]};
}

void ChunkLowering::forward_attention(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View y = set_output(op);
  const Operand result = as_heads(y.operand);
  const KeptShape shape = attention_shape(op);
  keep(op, shape, {{"lse", {result.sizes[0], result.sizes[2], result.sizes[1]}}});
  KernelDraft call(KernelKind::Attention, KernelPart::Forward, entry);
  call.kernel().place = attention_place(op);
  for (std::size_t i = 0; i < 3; ++i) {
    const View& x = value(entry.inputs[i]);
    call.read(x, as_heads(x.operand));
  }
  call.write(y, result);
  for (const View& kept : statistics(op)) call.write(kept);
  add_workspace(op, shape, call);
  emit(call);
}

std::vector<GlobalExtent> ChunkLowering::attention_place(std::size_t op) const {
  const GraphOp& entry = graph_.ops[op];
  const auto q = sharding_.place(entry.inputs[0]);
  const auto k = sharding_.place(entry.inputs[1]);
  GlobalExtent heads = q[2];
  for (std::size_t i = 3; i + 1 < q.size(); ++i) {
    heads = {heads.start * q[i].size + q[i].start, heads.size * q[i].size};
  }
  return {q[0], heads, q[1], k[1]};
}

void ChunkLowering::forward_elementwise(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View y = set_output(op);
  KernelDraft call = elementwise_call(op, KernelPart::Forward);
  for (const TensorId input : entry.inputs) call.read(value(input));
  call.write(y);
  if (entry.kind == OpKind::Dropout) {
    keep(op, {.elements = element_count(y.operand)}, {});
    for (const View& kept : statistics(op)) call.write(kept);
  }
  emit(call);
}

KernelDraft ChunkLowering::elementwise_call(std::size_t op, KernelPart part) const {
  const GraphOp& entry = graph_.ops[op];
  const auto kind = [&] {
    switch (entry.kind) {
      case OpKind::Rope:
        return KernelKind::Rope;
      case OpKind::GatedActivation:
        return KernelKind::GatedActivation;
      case OpKind::Scale:
        return KernelKind::Scale;
      case OpKind::Dropout:
        return KernelKind::Dropout;
      default:
        return KernelKind::Activation;
    }
  }();
  KernelDraft call(kind, part, entry);
  if (kind == KernelKind::Dropout || kind == KernelKind::Rope) {
    call.kernel().place = sharding_.place(entry.inputs[0]);
  }
  return call;
}

Operand ChunkLowering::broadcast(TensorId from, TensorId to) {
  const auto& have = graph_.tensors[from.index()].dims;
  const auto& want = graph_.tensors[to.index()].dims;
  const Operand own = dense_operand(sharding_.sizes(from));
  Operand result = dense_operand(sharding_.sizes(to));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto found = std::find(have.begin(), have.end(), want[i]);
    result.strides[i] =
        found == have.end() ? 0 : own.strides[static_cast<std::size_t>(found - have.begin())];
  }
  return result;
}

void ChunkLowering::forward_add(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View y = set_output(op);
  KernelDraft call(KernelKind::Add, KernelPart::Forward, entry);
  for (const TensorId input : entry.inputs) {
    call.read(value(input), broadcast(input, entry.outputs[0]));
  }
  emit(call.write(y));
}

View ChunkLowering::piece_of(const View& whole, std::size_t op, std::size_t piece) const {
  const GraphOp& entry = graph_.ops[op];
  const DimId axis = std::get<AxisAttributes>(entry.attributes).dim;
  const auto& dims = graph_.tensors[entry.inputs[0].index()].dims;
  const auto at =
      static_cast<std::size_t>(std::find(dims.begin(), dims.end(), axis) - dims.begin());
  const auto length = [&](std::size_t i) -> std::int64_t {
    const auto& own = graph_.tensors[entry.outputs[i].index()].dims;
    return own.size() < dims.size() ? 1 : graph_.dims[own[at].index()].size;
  };
  View view = whole;
  for (std::size_t i = 0; i < piece; ++i) {
    view.operand.offset += length(i) * whole.operand.strides[at];
  }
  const auto position = static_cast<std::ptrdiff_t>(at);
  if (graph_.tensors[entry.outputs[piece].index()].dims.size() < dims.size()) {
    view.operand.sizes.erase(view.operand.sizes.begin() + position);
    view.operand.strides.erase(view.operand.strides.begin() + position);
  } else {
    view.operand.sizes[at] = length(piece);
  }
  return view;
}

void ChunkLowering::forward_split(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  for (std::size_t i = 0; i < entry.outputs.size(); ++i) {
    set_value(entry.outputs[i], piece_of(value(entry.inputs[0]), op, i));
  }
}

bool ChunkLowering::splits_vocabulary(std::size_t op) const {
  return sharding_.is_split(op, graph_.tensors[graph_.ops[op].inputs[0].index()].dims.back());
}

std::int64_t ChunkLowering::first_class(std::size_t op) const {
  return sharding_.share(op, graph_.tensors[graph_.ops[op].inputs[0].index()].dims.back()).start;
}

void ChunkLowering::forward_loss(std::size_t op) {
  const GraphOp& entry = graph_.ops[op];
  const View& logits = value(entry.inputs[0]);
  const View& labels = value(entry.inputs[1]);
  const Operand shape = as_matrix(logits.operand, 1);
  const Operand rows = as_row(labels.operand);
  const std::vector<std::int64_t> row = {shape.sizes[0]};
  const View largest = new_view(entry.name + ".largest", row, state_element(plan_));
  const View sums = new_view(entry.name + ".sums", {shape.sizes[0], 2}, state_element(plan_));
  versions_.back().statistics[op] = {largest, sums};

  KernelDraft most(KernelKind::LossLargest, KernelPart::Forward, entry);
  emit(most.read(logits, shape).write(largest));
  if (splits_vocabulary(op)) all_reduce(largest, Reduction::Max);
  KernelDraft add(KernelKind::LossSums, KernelPart::Forward, entry);
  add.kernel().first_row = first_class(op);
  add.read(logits, shape).read(labels, rows).read(largest).write(sums);
  if (keeps_probabilities(plan_.kernels)) {
    const KeptShape kept{.elements = element_count(logits.operand)};
    keep(op, kept, {});
    add.write(statistics(op).back());
    add_workspace(op, kept, add);
  }
  emit(add);
  if (splits_vocabulary(op)) all_reduce(sums);
  if (rerunning_) return;  // the loss is a sum over micro-batches
  const View loss{persistent(*program_.loss), dense_operand({1}, BufferElement::Double)};
  KernelDraft mean(KernelKind::Loss, KernelPart::Forward, entry);
  emit(mean.read(labels, rows).read(largest).read(sums).write(loss));
}

}  // namespace meshwright

#include "simulator/lowering/ops/attention.h"

#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {

std::vector<DimPlace> attention_place(const FragmentWriter& writer, std::size_t op,
                                      const DimPlace& keys) {
  const auto q = writer.shards().place(writer.layouts(op).inputs[0]);
  const auto range = [](const DimPlace& place) {
    return place.ranges.empty() ? ShardRange() : place.ranges.front();
  };
  DimPlace heads{{range(q[2])}, q[2].size};
  for (std::size_t i = 3; i + 1 < q.size(); ++i) {
    const ShardRange outer = heads.ranges[0], inner = range(q[i]);
    heads = {{{outer.start * q[i].size + inner.start, outer.size * inner.size}},
             heads.size * q[i].size};
  }
  return {q[0], heads, q[1], keys};
}

namespace {

KeptShape attention_shape(FragmentWriter& writer, std::size_t op) {
  const Operand q = as_heads(writer.input(op, 0).operand);
  const Operand k = as_heads(writer.input(op, 1).operand);
  return {.rows = q.sizes[0] * q.sizes[1] * q.sizes[2], .keys = k.sizes[1]};
}

std::vector<DimPlace> own_place(const FragmentWriter& writer, std::size_t op) {
  return attention_place(writer, op, writer.shards().place(writer.layouts(op).inputs[1])[1]);
}

void forward_attention(FragmentWriter& writer, std::size_t op) {
  if (is_ring(writer, op)) return forward_ring(writer, op);
  const GraphOp& entry = writer.op(op);
  const FragmentWriter::Output y = writer.start_output(op);
  const Operand result = as_heads(y.computed.operand);
  const KeptShape shape = attention_shape(writer, op);
  writer.keep(op, shape, {{"lse", {result.sizes[0], result.sizes[2], result.sizes[1]}}});
  KernelDraft call(KernelKind::Attention, Phase::Forward, entry);
  call.kernel().place = own_place(writer, op);
  for (std::size_t i = 0; i < 3; ++i) {
    const View x = writer.input(op, i);
    call.read(x, as_heads(x.operand));
  }
  call.write(y.computed, result);
  for (const View& kept : writer.statistics(op)) call.write(kept);
  writer.add_workspace(op, shape, call);
  writer.emit(call);
  writer.finish_output(op, y);
}

void backward_attention(FragmentWriter& writer, std::size_t op) {
  if (is_ring(writer, op)) return backward_ring(writer, op);
  const GraphOp& entry = writer.op(op);
  const View dy = writer.output_gradient(op);
  const View y = writer.output(op);
  KernelDraft call(KernelKind::Attention, Phase::InputGradient, entry);
  call.kernel().place = own_place(writer, op);
  for (std::size_t i = 0; i < 3; ++i) {
    const View x = writer.input(op, i);
    call.read(x, as_heads(x.operand));
  }
  if (writer.plan().kernels != KernelSet::Unfused) call.read(y, as_heads(y.operand));
  for (const View& kept : writer.statistics(op)) call.read(kept);
  call.read(dy, as_heads(dy.operand));
  std::vector<View> results;
  for (std::size_t i = 0; i < 3; ++i) {
    results.push_back(writer.separate_target(op, i));
    call.write(results.back(), as_heads(results.back().operand));
  }
  writer.add_workspace(op, attention_shape(writer, op), call);
  writer.emit(call);
  for (std::size_t i = 0; i < 3; ++i) writer.add_gradient(op, i, results[i]);
}

std::optional<std::string> attention_form_refusal(const OpGraph&, const GraphOp& op) {
  if (op.inputs.size() > 3) return "attention with a stored bias";
  const auto& attributes = std::get<AttentionAttributes>(op.attributes);
  if (attributes.window && !attributes.causal) return "a window that looks both ways";
  return std::nullopt;
}

// A device's heads are one range of all heads: queries that share keys are split only where no
// device has more than one head of keys.
std::optional<std::string> attention_layout_refusal(const OpGraph& graph, const Mesh& mesh,
                                                    const OpLayouts& layouts) {
  const std::vector<DimLayout>& q = layouts.inputs[0].dims;
  std::int64_t most = largest_shard(q[2].sharding, mesh, graph.dims[q[2].dim.index()].size);
  for (std::size_t i = 3; i + 1 < q.size(); ++i) {
    const Dim& dim = graph.dims[q[i].dim.index()];
    if (!q[i].sharding.axes.empty() && most > 1) return "splitting " + dim.name;
    most *= largest_shard(q[i].sharding, mesh, dim.size);
  }
  if (q[1].sharding.axes.size() > 2) return "a ring over more than two axes";
  return std::nullopt;
}

}  // namespace

const OpLowering kAttentionLowering{.forward = forward_attention,
                                    .backward = backward_attention,
                                    .takes_gaps = true,
                                    .form_refusal = attention_form_refusal,
                                    .layout_refusal = attention_layout_refusal};

}  // namespace meshwright

#include <fmt/format.h>

#include "costmodel/base/input_error.h"
#include "simulator/lowering/fragment_writer.h"
#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {
namespace {

KernelKind elementwise_kernel(OpKind kind) {
  switch (kind) {
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
}

KernelDraft call_of(const FragmentWriter& writer, std::size_t op, Phase phase) {
  const KernelKind kind = elementwise_kernel(writer.op(op).kind);
  KernelDraft call(kind, phase, writer.op(op));
  if (kind == KernelKind::Dropout || kind == KernelKind::Rope) {
    call.kernel().place = writer.shards().place(writer.layouts(op).inputs[0]);
  }
  return call;
}

// A gate may lack dimensions of what it is for.
Operand like_result(const FragmentWriter& writer, std::size_t op, std::size_t input, const View& x,
                    const View& result) {
  const auto& have = writer.dims(writer.op(op).inputs[input]);
  const auto& want = writer.dims(writer.op(op).outputs[0]);
  return have == want ? x.operand : repeated(x.operand, have, want, result.operand);
}

void forward_elementwise(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const FragmentWriter::Output y = writer.start_output(op);
  KernelDraft call = call_of(writer, op, Phase::Forward);
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    const View x = writer.input(op, i);
    call.read(x, like_result(writer, op, i, x, y.computed));
  }
  call.write(y.computed);
  if (entry.kind == OpKind::Dropout) {
    writer.keep(op, {.elements = element_count(y.computed.operand)}, {});
    for (const View& kept : writer.statistics(op)) call.write(kept);
  }
  writer.emit(call);
  writer.finish_output(op, y);
}

void backward_elementwise(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  if (!writer.needs_gradient(entry.inputs[0])) return;
  const View dy = writer.output_gradient(op);
  const auto [dx, known] = writer.gradient_target(op, 0);
  KernelDraft call = call_of(writer, op, Phase::InputGradient);
  if (entry.kind == OpKind::Activation) call.read(writer.input(op, 0));
  if (entry.kind == OpKind::Dropout) {
    for (const View& kept : writer.statistics(op)) call.read(kept);
  }
  writer.emit(call.read(dy).addend(known, dx.operand).write(dx));
  writer.set_gradient(op, 0, dx);
}

void backward_gated(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const View dy = writer.output_gradient(op);
  KernelDraft call = call_of(writer, op, Phase::InputGradient);
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    const View x = writer.input(op, i);
    call.read(x, like_result(writer, op, i, x, dy));
  }
  call.read(dy);
  const bool same_dims = writer.dims(entry.inputs[0]) == writer.dims(entry.inputs[1]);
  std::vector<View> results;
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    // Of a gate that was repeated: the sum comes after.
    results.push_back(i == 0 && !same_dims ? writer.new_view("d " + entry.name, dy.operand.sizes)
                                           : writer.separate_target(op, i));
    call.write(results.back());
  }
  writer.emit(call);
  if (!same_dims) {
    const View all = std::exchange(results[0], writer.separate_target(op, 0));
    writer.emit_sum(entry.inputs[0], all, std::nullopt, results[0], all.operand,
                    like_result(writer, op, 0, results[0], all));
  }
  for (std::size_t i = 0; i < results.size(); ++i) writer.add_gradient(op, i, results[i]);
}

std::optional<std::string> rope_refusal(const OpGraph&, const GraphOp& op) {
  const auto& rope = std::get<RopeAttributes>(op.attributes);
  const bool known = rope.scaling.empty() || rope.scaling == "linear" || rope.scaling == "llama3" ||
                     rope.scaling == "yarn";
  if (!known) {
    return fmt::format("rope scaling {}", printable(rope.scaling));
  }
  if (rope.rotated % 2 != 0) return fmt::format("rope of {} entries", rope.rotated);
  return std::nullopt;
}

}  // namespace

const OpLowering kElementwiseLowering{
    .forward = forward_elementwise, .backward = backward_elementwise, .takes_gaps = true};
const OpLowering kRopeLowering{.forward = forward_elementwise,
                               .backward = backward_elementwise,
                               .takes_gaps = true,
                               .form_refusal = rope_refusal};
const OpLowering kGatedLowering{
    .forward = forward_elementwise, .backward = backward_gated, .takes_gaps = true};

}  // namespace meshwright

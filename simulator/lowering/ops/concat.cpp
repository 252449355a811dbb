#include <algorithm>

#include "simulator/lowering/fragment_writer.h"
#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {
namespace {

// Where the joined dimension stands in the result.
std::size_t joined_dim(const FragmentWriter& writer, std::size_t op) {
  const DimId axis = std::get<AxisAttributes>(writer.op(op).attributes).dim;
  const auto& dims = writer.dims(writer.op(op).outputs[0]);
  return static_cast<std::size_t>(std::ranges::find(dims, axis) - dims.begin());
}

// Which dimension of an input stands for the joined one; the number of dimensions: none, and the
// input is one entry of it.
std::size_t own_dim(const FragmentWriter& writer, std::size_t op, std::size_t input) {
  const auto& own = writer.dims(writer.op(op).inputs[input]);
  const auto& all = writer.dims(writer.op(op).outputs[0]);
  const auto found =
      std::ranges::find_if(own, [&](DimId dim) { return std::ranges::count(all, dim) == 0; });
  return static_cast<std::size_t>(found - own.begin());
}

std::int64_t joined_length(const FragmentWriter& writer, std::size_t op, std::size_t input) {
  const auto& own = writer.dims(writer.op(op).inputs[input]);
  const std::size_t at = own_dim(writer, op, input);
  return at == own.size() ? 1 : writer.shards().whole(own[at]);
}

// An input's part of the result, or of its gradient.
View joined_part(const FragmentWriter& writer, std::size_t op, std::size_t input, View whole) {
  const std::size_t at = joined_dim(writer, op);
  for (std::size_t i = 0; i < input; ++i) {
    whole.operand.offset += joined_length(writer, op, i) * whole.operand.strides[at];
  }
  whole.operand.sizes[at] = joined_length(writer, op, input);
  return whole;
}

// An input, or its gradient, in the shape of its part.
Operand spread(const FragmentWriter& writer, std::size_t op, std::size_t input, const Operand& own,
               const Operand& part) {
  const auto& want = writer.dims(writer.op(op).outputs[0]);
  std::vector<DimId> have = writer.dims(writer.op(op).inputs[input]);
  const std::size_t at = own_dim(writer, op, input);
  if (at < have.size()) have[at] = want[joined_dim(writer, op)];
  return repeated(own, have, want, part);
}

void forward_concat(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const FragmentWriter::Output y = writer.start_output(op);
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    View x = writer.input(op, i);
    const View part = joined_part(writer, op, i, y.computed);
    x.operand = spread(writer, op, i, x.operand, part.operand);
    writer.emit_copy(x, part, entry.name);
  }
  writer.finish_output(op, y);
}

void backward_concat(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  const View dy = writer.output_gradient(op);
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    if (!writer.needs_gradient(entry.inputs[i])) continue;
    const View part = joined_part(writer, op, i, dy);
    const View dx = writer.separate_target(op, i);
    writer.emit_sum(entry.inputs[i], part, std::nullopt, dx, part.operand,
                    spread(writer, op, i, dx.operand, part.operand));
    writer.add_gradient(op, i, dx);
  }
}

std::optional<std::string> concat_form_refusal(const OpGraph&, const GraphOp& op) {
  if (op.weights.empty()) return std::nullopt;
  return "joining a weight";
}

}  // namespace

const OpLowering kConcatLowering{.forward = forward_concat,
                                 .backward = backward_concat,
                                 .takes_gaps = true,
                                 .form_refusal = concat_form_refusal};

}  // namespace meshwright

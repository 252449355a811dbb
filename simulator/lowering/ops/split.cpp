#include <algorithm>

#include "simulator/lowering/fragment_writer.h"
#include "simulator/lowering/ops/op_lowering.h"

namespace meshwright {
namespace {

void forward_split(FragmentWriter& writer, std::size_t op) {
  const GraphOp& entry = writer.op(op);
  for (std::size_t i = 0; i < entry.outputs.size(); ++i) {
    writer.set_value(entry.outputs[i], writer.piece_of(writer.input(op, 0), op, i));
  }
}

void backward_split(FragmentWriter& writer, std::size_t op) { writer.join_pieces(op); }

}  // namespace

View FragmentWriter::piece_of(const View& whole, std::size_t split, std::size_t piece) const {
  const GraphOp& entry = graph().ops[split];
  const DimId axis = std::get<AxisAttributes>(entry.attributes).dim;
  const auto& all = dims(entry.inputs[0]);
  const auto at = static_cast<std::size_t>(std::ranges::find(all, axis) - all.begin());
  const auto length = [&](std::size_t i) -> std::int64_t {
    const auto& own = dims(entry.outputs[i]);
    return own.size() < all.size() ? 1 : graph().dims[own[at].index()].size;
  };
  View view = whole;
  for (std::size_t i = 0; i < piece; ++i) {
    view.operand.offset += length(i) * whole.operand.strides[at];
  }
  const auto position = static_cast<std::ptrdiff_t>(at);
  if (dims(entry.outputs[piece]).size() < all.size()) {
    view.operand.sizes.erase(view.operand.sizes.begin() + position);
    view.operand.strides.erase(view.operand.strides.begin() + position);
  } else {
    view.operand.sizes[at] = length(piece);
  }
  return view;
}

const OpLowering kSplitLowering{.forward = forward_split, .backward = backward_split};

}  // namespace meshwright

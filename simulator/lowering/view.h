#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "costmodel/base/checked.h"
#include "simulator/lowering/fragment.h"

namespace meshwright {

// Where the value of a tensor is: an operand with one size per dimension.
struct View {
  FragmentBufferId buffer;
  Operand operand;
};

// Some places of one dimension of a view.
View slice_of(View view, std::size_t dim, const ShardRange& range);

// So many elements of a flat buffer.
Operand range(std::int64_t offset, std::int64_t count, BufferElement element, bool written = false);
// The same elements with the last `columns` dimensions as one, and the others as another: rows may
// have gaps between them.
Operand as_matrix(const Operand& operand, std::size_t columns);
// The same elements, without gaps, in rows of so many.
Operand as_rows(const Operand& operand, std::int64_t columns);
Operand as_row(const Operand& operand);
// [batch, sequence, heads.., size] with all heads as one dimension.
Operand as_heads(const Operand& operand);

// An operand with dimensions `have` in a shape with dimensions `want`, repeated along those that it
// lacks.
Operand repeated(const Operand& own, const std::vector<DimId>& have, const std::vector<DimId>& want,
                 const Operand& shape);

// A kernel with its operands and their buffers.
class KernelDraft {
 public:
  KernelDraft(KernelKind kind, Phase phase, const GraphOp& op)
      : kernel_{.kind = kind, .phase = phase, .attributes = op.attributes, .name = op.name} {}

  KernelDraft& read(const View& view, Operand operand) {
    buffers_.push_back(view.buffer);
    kernel_.operands.push_back(std::move(operand));
    return *this;
  }
  KernelDraft& read(const View& view) { return read(view, view.operand); }
  KernelDraft& write(const View& view, Operand operand) {
    operand.written = true;
    return read(view, std::move(operand));
  }
  KernelDraft& write(const View& view) { return write(view, view.operand); }
  // What is known of the result so far, in the result's shape.
  KernelDraft& addend(const std::optional<View>& known, const Operand& result) {
    if (!known) return *this;
    Operand operand = result;
    operand.offset = known->operand.offset;
    operand.written = false;
    kernel_.has_addend = true;
    return read(*known, std::move(operand));
  }
  // It computes this op's gradients of its weights.
  KernelDraft& computes_gradients(std::size_t op, const std::vector<WeightId>& weights) {
    for (const WeightId id : weights) gradients_.push_back({op, id, true});
    return *this;
  }
  Kernel& kernel() { return kernel_; }
  const std::vector<FragmentBufferId>& buffers() const { return buffers_; }
  // Uses the draft up.
  FragmentTask take() {
    const Phase phase = kernel_.phase;
    FragmentTask task{.work = std::move(kernel_), .operands = std::move(buffers_), .phase = phase};
    task.gradients = std::move(gradients_);
    return task;
  }

 private:
  Kernel kernel_;
  std::vector<FragmentBufferId> buffers_;
  std::vector<WeightOfOp> gradients_;
};

}  // namespace meshwright

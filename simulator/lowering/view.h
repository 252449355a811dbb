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

// The gradient of a tensor as far as it has come. A partial one still has to be summed over the
// devices that split the work.
struct GradientSum {
  std::optional<View> whole, partial;
};

// So many elements of a flat buffer.
Operand range(std::int64_t offset, std::int64_t count, BufferElement element, bool written = false);
// The same elements with the last `columns` dimensions as one, and the others as another.
Operand as_matrix(const Operand& operand, std::size_t columns);
// The same elements, without gaps, in rows of so many.
Operand as_rows(const Operand& operand, std::int64_t columns);
Operand as_row(const Operand& operand);
// [batch, sequence, heads.., size] with all heads as one dimension.
Operand as_heads(const Operand& operand);

// A kernel with its operands and their buffers.
class KernelDraft {
 public:
  KernelDraft(KernelKind kind, KernelPart part, const GraphOp& op) {
    task_.kernel.kind = kind;
    task_.kernel.part = task_.part = part;
    task_.kernel.attributes = op.attributes;
    task_.kernel.name = op.name;
  }
  KernelDraft& read(const View& view, Operand operand) {
    task_.operands.push_back(view.buffer);
    task_.kernel.operands.push_back(std::move(operand));
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
    task_.kernel.has_addend = true;
    return read(*known, std::move(operand));
  }
  FragmentTask& task() { return task_; }
  Kernel& kernel() { return task_.kernel; }

 private:
  FragmentTask task_;
};

}  // namespace meshwright

#include "simulator/lowering/narrow_operands.h"

#include <vector>

namespace meshwright {
namespace {

// Logits are computed in 16 bits.
bool multiplies_narrow(const FragmentTask& task) {
  const auto* kernel = std::get_if<Kernel>(&task.work);
  if (!kernel || kernel->name.ends_with("logits")) return false;
  return kernel->kind == KernelKind::Matmul || kernel->kind == KernelKind::ExpertMatmul;
}

struct OperandReaders {
  bool forward_writes = false, products = false, others = false;
};

void add_readers(const std::vector<FragmentTask>& tasks, bool forward,
                 std::vector<OperandReaders>& readers) {
  for (const FragmentTask& task : tasks) {
    for (std::size_t i = 0; i < task.operands.size(); ++i) {
      OperandReaders& of = readers[task.operands[i].index()];
      if (writes_operand(task, i)) {
        of.forward_writes = of.forward_writes || forward;
      } else {
        (multiplies_narrow(task) ? of.products : of.others) = true;
      }
    }
  }
}

}  // namespace

void narrow_operands(Fragment& fragment) {
  std::vector<OperandReaders> readers(fragment.buffers.size());
  add_readers(fragment.forward, true, readers);
  add_readers(fragment.backward, false, readers);
  for (std::size_t b = 0; b < readers.size(); ++b) {
    auto& [buffer, holds] = fragment.buffers[b];
    const bool real = buffer.element == BufferElement::Real;
    if (!real || !std::holds_alternative<OfMicrobatch>(holds)) continue;
    const OperandReaders& of = readers[b];
    if (!of.forward_writes || !of.products || of.others) continue;
    buffer.expected = (buffer.expected.value_or(buffer.count) + 1) / 2;
  }
}

}  // namespace meshwright

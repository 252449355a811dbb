#include "simulator/program/operand_use.h"

namespace meshwright {

bool reads_operand(const Program& program, const Task& task, std::size_t operand) {
  if (task.kind == TaskKind::Copy) return operand == 0;
  if (task.kind == TaskKind::Transfer) {
    const Transfer& transfer = program.transfer(task);
    return transfer.blocks ? operand == 0 : transfer.kind != TransferKind::Receive;
  }
  const Kernel& kernel = program.kernel(task);
  return !kernel.operands[operand].written || kernel.accumulate || kernel.kind == KernelKind::AdamW;
}

bool writes_operand(const Program& program, const Task& task, std::size_t operand) {
  if (task.kind == TaskKind::Copy) return operand == 1;
  if (task.kind == TaskKind::Transfer) {
    const Transfer& transfer = program.transfer(task);
    return transfer.blocks ? operand == 1 : transfer.kind != TransferKind::Send;
  }
  return program.kernel(task).operands[operand].written;
}

bool writes_buffer(const Program& program, const Task& task, BufferId buffer) {
  const auto buffers = program.operands_of(task);
  for (std::size_t o = 0; o < buffers.size(); ++o) {
    if (buffers[o] == buffer && writes_operand(program, task, o)) return true;
  }
  return false;
}

}  // namespace meshwright

#include "simulator/program/operand_use.h"

namespace meshwright {
namespace {

bool is_predicate(const Task& task, std::size_t operand) {
  return task.has_predicate && operand + 1 == task.operand_count;
}

}  // namespace

bool reads_operand(const Program& program, const Task& task, std::size_t operand) {
  if (is_predicate(task, operand)) return true;
  switch (task.kind) {
    case TaskKind::Kernel:
      return reads_operand(program.kernel(task), operand);
    case TaskKind::Transfer: {
      const Transfer& transfer = program.transfer(task);
      const bool sends =
          transfer.kind != TransferKind::Broadcast || transfer.group.front() == program.device;
      return sends && reads_operand(transfer, operand);
    }
    case TaskKind::Copy:
      return reads_operand(program.copy(task), operand);
  }
  return false;
}

bool writes_operand(const Program& program, const Task& task, std::size_t operand) {
  if (is_predicate(task, operand)) return false;
  switch (task.kind) {
    case TaskKind::Kernel:
      return writes_operand(program.kernel(task), operand);
    case TaskKind::Transfer:
      return writes_operand(program.transfer(task), operand);
    case TaskKind::Copy:
      return writes_operand(program.copy(task), operand);
  }
  return false;
}

bool writes_buffer(const Program& program, const Task& task, BufferId buffer) {
  const auto buffers = program.operands_of(task);
  for (std::size_t o = 0; o < buffers.size(); ++o) {
    if (buffers[o] == buffer && writes_operand(program, task, o)) return true;
  }
  return false;
}

}  // namespace meshwright

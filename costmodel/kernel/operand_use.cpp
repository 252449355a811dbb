#include "costmodel/kernel/operand_use.h"

namespace meshwright {

bool reads_operand(const Kernel& kernel, std::size_t operand) {
  return !kernel.operands[operand].written || kernel.accumulate || kernel.kind == KernelKind::AdamW;
}

bool writes_operand(const Kernel& kernel, std::size_t operand) {
  return kernel.operands[operand].written;
}

bool reads_operand(const Transfer& transfer, std::size_t operand) {
  if (operand == 2) return transfer.rows.has_value();
  return operand == 0 && transfer.kind != TransferKind::Receive;
}

bool writes_operand(const Transfer& transfer, std::size_t operand) {
  return operand == (transfer.kind == TransferKind::Receive ? 0u : 1u);
}

bool reads_operand(const HostCopy&, std::size_t operand) { return operand == 0; }

bool writes_operand(const HostCopy&, std::size_t operand) { return operand == 1; }

}  // namespace meshwright

#pragma once

#include <utility>

#include "costmodel/kernel/transfer.h"

namespace meshwright {

// The transfer with operands: `count` elements of a buffer from `offset` on, in place, as the
// member at `place` sees them. What is cut is cut into equal parts.
inline Transfer flat(Transfer transfer, std::int64_t count, std::size_t place = 0,
                     std::int64_t offset = 0, BufferElement element = BufferElement::Real) {
  const Operand whole = dense_operand({count}, element, offset);
  const std::int64_t part = count / static_cast<std::int64_t>(transfer.group.size());
  const Operand own =
      dense_operand({part}, element, offset + part * static_cast<std::int64_t>(place));
  const bool gathers = transfer.kind == TransferKind::AllGather;
  const bool scatters = transfer.kind == TransferKind::ReduceScatter;
  if (transfer.kind != TransferKind::Receive) transfer.source = gathers ? own : whole;
  if (transfer.kind != TransferKind::Send) transfer.target = scatters ? own : whole;
  return transfer;
}

}  // namespace meshwright

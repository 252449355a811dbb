#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "costmodel/base/precision.h"
#include "costmodel/kernel/transfer.h"

namespace meshwright {

// What a member brings to a collective: its transfer, and the buffers its operands lie in.
struct CollectiveMember {
  const Transfer* transfer = nullptr;
  std::byte* source = nullptr;
  std::byte* target = nullptr;
};

// Does the share of the member at `place` in the memory of all of them. When every member has done
// its own, the collective is done; until then none may touch its operands. A member writes no byte
// that another one reads or writes.
void do_share(std::span<const CollectiveMember> members, std::size_t place, Precision precision);

}  // namespace meshwright

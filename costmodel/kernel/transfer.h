#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "costmodel/base/ids.h"
#include "costmodel/base/units.h"
#include "costmodel/kernel/kernel.h"

namespace meshwright {

// Every transfer works in place on `count` elements of one buffer from `offset` on. For the
// sharded kinds the range is cut into equal parts, one per member of the group in its order:
// AllReduce       everybody's range -> the reduced range for all
// ReduceScatter   everybody's range -> each one's own part, reduced (the others are lost)
// AllGather       each one's own part -> the whole range for all
// AllToAll        part j of member i -> part i of member j
// Broadcast       the first member's range -> all
// Send, Receive   a range to or from the other of a pair
// Where an AllGather or ReduceScatter has `blocks`, the range is so many equal blocks, each cut
// into parts, and a member's own parts lie together in a second buffer: the first one is read, the
// second one written.
// Reductions add in the order of the group, whoever computes them.
enum class TransferKind {
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  Broadcast,
  Send,
  Receive,
};
std::string_view to_text(TransferKind kind);
// Between two devices, which name it differently; all others are the same for all members.
inline bool is_pair(TransferKind kind) {
  return kind == TransferKind::Send || kind == TransferKind::Receive;
}

enum class Reduction { Sum, Max };

// Why a transfer is there: what reports add up.
enum class Purpose { Tensor, Pipeline, Gradients, Weights, Tied, Norm, Loss };
std::string_view to_text(Purpose purpose);

struct Transfer {
  TransferKind kind = TransferKind::AllReduce;
  Reduction reduction = Reduction::Sum;
  Purpose purpose = Purpose::Tensor;
  std::vector<DeviceId> group;  // in reduction order; sender and receiver for Send and Receive
  std::int64_t offset = 0;
  std::int64_t count = 0;
  BufferElement element = BufferElement::Real;
  std::optional<std::int64_t> blocks = {};  // none: in place
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// What one member sends, as the bandwidth-optimal algorithms have it: S (n-1)/n for the sharded
// kinds, twice that for an all-reduce, S for the others.
double bytes_sent(TransferKind kind, Bytes whole, std::int64_t members);
double bytes_sent(const Transfer& transfer, Precision precision);

}  // namespace meshwright

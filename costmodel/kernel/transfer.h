#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/ids.h"
#include "costmodel/base/units.h"
#include "costmodel/kernel/kernel.h"
#include "costmodel/kernel/shard_range.h"

namespace meshwright {

// What goes from the sources of a group's members to their targets:
// AllReduce       everybody's source, reduced -> all
// ReduceScatter   everybody's source, reduced -> each one's part of it
// AllGather       each one's source -> its part of everybody's target
// AllToAll        part j of member i's source -> part i of member j's target
// Broadcast       the first member's source -> all
// Send, Receive   the source of a pair's first -> the target of its second
// Elements follow each other in row-major order, whatever the strides. Reductions add in the order
// of the group, whoever computes them.
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
// Whether the sources, or the targets, are shared out among the members.
inline bool cuts_source(TransferKind kind) {
  return kind == TransferKind::ReduceScatter || kind == TransferKind::AllToAll;
}
inline bool cuts_target(TransferKind kind) {
  return kind == TransferKind::AllGather || kind == TransferKind::AllToAll;
}

enum class Reduction { Sum, Max };

// Why a transfer is there: what reports add up.
enum class Purpose { Tensor, Context, Experts, Pipeline, Gradients, Weights, Tied, Norm, Loss };
std::string_view to_text(Purpose purpose);

// How a dimension is shared out among the members of a group: by place in the group the ranges of
// each, ascending, which may be of unequal size, several or none. No parts at all: equal ones in
// the order of the group.
struct Cut {
  std::size_t dim = 0;
  std::vector<std::vector<ShardRange>> parts = {};
  friend bool operator==(const Cut&, const Cut&) = default;
};
std::vector<ShardRange> part_of(const Cut& cut, std::int64_t size, std::size_t place,
                                std::size_t members);

// Of an AllToAll of rows, along the first dimension, that go to the devices of their experts: how
// many is counted when it runs. counts [members, experts] has how many of each member's rows are
// for each expert; members hold equal numbers of the experts, in order. The operands' sizes say
// what is expected; the buffers have room for all that can come.
struct CountedRows {
  Operand counts;        // in the task's third buffer
  bool returns = false;  // rows go back to where they came from
  friend bool operator==(const CountedRows&, const CountedRows&) = default;
};

// As one member sees it. A Send has no target and a Receive no source, in its task's buffers too;
// all others have two buffers, which may be the same one: then the operands are apart from each
// other, or in place: an AllReduce or Broadcast with the same source and target, a part of what is
// cut with that part's own place.
struct Transfer {
  TransferKind kind = TransferKind::AllReduce;
  Reduction reduction = Reduction::Sum;
  Purpose purpose = Purpose::Tensor;
  std::vector<DeviceId> group;  // in reduction order; sender and receiver for Send and Receive
  std::optional<Operand> source = {};
  std::optional<Operand> target = {};
  Cut source_cut = {};  // of kinds that cut their sources
  Cut target_cut = {};  // of kinds that cut their targets
  std::optional<CountedRows> rows = {};
  // An AllToAll whose parts are each member's own: rows that have been counted.
  bool own_parts = false;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};
BufferElement element_of(const Transfer& transfer);

// The sizes of the tensor that is moved, with what is cut whole: the same for all members.
Extents whole_sizes(const Transfer& transfer);
// What a transfer counts for: the whole of what is reduced, gathered or sent, and of an AllToAll
// what one member holds. Where parts are unequal, all are padded to the largest.
std::int64_t element_count(const Transfer& transfer);
Bytes bytes_of(const Transfer& transfer, Precision precision);

// What one member sends, as the bandwidth-optimal algorithms have it: S (n-1)/n for the sharded
// kinds, twice that for an all-reduce, S for the others.
double bytes_sent(TransferKind kind, Bytes whole, std::int64_t members);
double bytes_sent(const Transfer& transfer, Precision precision);

// The transfer with the parts that the counts of its rows, row-major, give the member at a place.
Transfer with_counts(const Transfer& transfer, const std::vector<std::int64_t>& counts,
                     std::size_t place);

// Whether two members that come to these transfers mean the same one. A Send is the same as its
// Receive.
bool is_same_work(const Transfer& a, const Transfer& b);
// Why a device cannot take part in a transfer, whatever the others do. None: it can.
std::optional<std::string> fault_of(const Transfer& transfer, DeviceId device);

// "all_gather weights of 12 among [0,1]".
std::string transfer_text(const Transfer& transfer);

}  // namespace meshwright

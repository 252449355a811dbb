#include "executor/cuda/transfer_run.h"

#include <algorithm>

#include "executor/common_rows.h"
#include "executor/cuda/cuda_work.h"
#include "executor/shared_stretch.h"

namespace meshwright::cuda {
namespace {

ncclDataType_t type_of(Precision precision) {
  switch (precision) {
    case Precision::FP64:
      return ncclDouble;
    case Precision::FP32:
    case Precision::TF32:
      return ncclFloat;
    case Precision::FP16:
      return ncclHalf;
    case Precision::BF16:
      return ncclBfloat16;
    case Precision::FP8:
      break;
  }
  return ncclUint8;
}

ncclDataType_t type_of(const Transfer& transfer, Precision precision) {
  switch (element_of(transfer)) {
    case BufferElement::Real:
      return type_of(precision);
    case BufferElement::Index:
      return ncclInt32;
    case BufferElement::Single:
      return ncclFloat;
    case BufferElement::Byte:
      return ncclUint8;
    case BufferElement::Double:
      break;
  }
  // Sizes of gradients are not negative: as whole numbers they have the same order, in which NaN is
  // the largest. NCCL's own maximum would lose it.
  const bool sizes = transfer.reduction == Reduction::Max && transfer.purpose == Purpose::Norm;
  return sizes ? ncclUint64 : ncclDouble;
}

bool is_dense(const Operand& operand) {
  std::int64_t step = 1;
  for (std::size_t d = operand.sizes.size(); d-- > 0;) {
    if (operand.sizes[d] != 1 && operand.strides[d] != step) return false;
    step *= operand.sizes[d];
  }
  return true;
}

bool lie_side_by_side(std::span<std::byte* const> starts, std::size_t bytes) {
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (starts[i] == nullptr || starts[i] != starts[0] + i * bytes) return false;
  }
  return true;
}

}  // namespace

TransferRun::TransferRun(const TransferCall& call)
    : call_(call),
      width_(static_cast<std::size_t>(
          bytes_per_element(element_of(call.transfer), call.precision).value())),
      type_(type_of(call.transfer, call.precision)),
      operation_(call.transfer.reduction == Reduction::Max ? ncclMax : ncclSum) {}

void TransferRun::run() {
  switch (call_.transfer.kind) {
    case TransferKind::AllReduce:
      return all_reduce();
    case TransferKind::ReduceScatter:
      return reduce_scatter();
    case TransferKind::AllGather:
      return all_gather();
    case TransferKind::AllToAll:
      return all_to_all();
    case TransferKind::Broadcast:
      return broadcast();
    case TransferKind::Send:
      return send();
    case TransferKind::Receive:
      return receive();
  }
}

TransferRun::Piece TransferRun::whole(const Operand& operand, std::byte* buffer) const {
  Piece piece{.count = element_count(operand)};
  if (is_dense(operand)) {
    piece.direct = buffer + bytes(operand.offset);
  } else {
    piece.copies.emplace_back(operand, dense_operand(operand.sizes, operand.element));
  }
  return piece;
}

TransferRun::Piece TransferRun::part(const Operand& operand, std::byte* buffer, const Cut& cut,
                                     std::size_t place) const {
  const auto ranges = part_of(cut, operand.sizes[cut.dim], place, members());
  Extents sizes = operand.sizes;
  sizes[cut.dim] = size_of(ranges);
  const Operand dense = dense_operand(sizes, operand.element);
  Piece piece{.count = element_count(dense)};
  for (const SharedStretch& s : stretches(ranges, whole_of(ranges))) {
    piece.copies.emplace_back(narrowed(operand, cut.dim, s.from, s.size),
                              narrowed(dense, cut.dim, s.to, s.size));
  }
  if (piece.copies.size() == 1 && is_dense(piece.copies[0].first)) {
    piece.direct = buffer + bytes(piece.copies[0].first.offset);
  }
  return piece;
}

std::vector<TransferRun::Piece> TransferRun::parts(const Operand& operand, std::byte* buffer,
                                                   const Cut& cut) const {
  std::vector<Piece> all;
  for (std::size_t place = 0; place < members(); ++place) {
    all.push_back(part(operand, buffer, cut, place));
  }
  return all;
}

void TransferRun::pack(const Piece& piece, std::byte* buffer, std::byte* to) const {
  if (piece.count == 0) return;
  if (piece.direct != nullptr) {
    return check(cudaMemcpyAsync(to, piece.direct, bytes(piece.count), cudaMemcpyDeviceToDevice,
                                 call_.stream),
                 "cudaMemcpyAsync");
  }
  for (const auto& [own, dense] : piece.copies) {
    launch_copy({own, buffer}, {dense, to}, width_, call_.stream);
  }
}

void TransferRun::unpack(const Piece& piece, const std::byte* from, std::byte* buffer) const {
  if (piece.count == 0) return;
  if (piece.direct != nullptr) {
    return check(cudaMemcpyAsync(piece.direct, from, bytes(piece.count), cudaMemcpyDeviceToDevice,
                                 call_.stream),
                 "cudaMemcpyAsync");
  }
  for (const auto& [own, dense] : piece.copies) {
    launch_copy({dense, const_cast<std::byte*>(from)}, {own, buffer}, width_, call_.stream);
  }
}

void TransferRun::all_reduce() {
  const Piece source = whole(*call_.transfer.source, call_.buffers[0]);
  const Piece target = whole(*call_.transfer.target, call_.buffers[1]);
  if (source.count == 0) return;
  std::byte* from = source.direct;
  std::byte* to = target.direct;
  if (from == nullptr || to == nullptr) {
    std::byte* const staged = call_.staging(bytes(source.count));
    if (from == nullptr) {
      pack(source, call_.buffers[0], staged);
      from = staged;
    }
    if (to == nullptr) to = staged;
  }
  call_.call("ncclAllReduce", [&] {
    return ncclAllReduce(from, to, static_cast<std::size_t>(source.count), type_, operation_,
                         call_.communicator, call_.stream);
  });
  if (target.direct == nullptr) unpack(target, to, call_.buffers[1]);
}

// Parts of unequal sizes are padded to the largest.
void TransferRun::reduce_scatter() {
  const auto given = parts(*call_.transfer.source, call_.buffers[0], call_.transfer.source_cut);
  const Piece taken = whole(*call_.transfer.target, call_.buffers[1]);
  std::vector<std::byte*> starts;
  std::int64_t most = 0;
  bool equal = true;
  for (const Piece& piece : given) {
    starts.push_back(piece.direct);
    most = std::max(most, piece.count);
    equal = equal && piece.count == given[0].count;
  }
  if (most == 0) return;
  std::byte *from = starts[0], *to = taken.direct;
  if (!equal || to == nullptr || !lie_side_by_side(starts, bytes(most))) {
    from = call_.staging(bytes(most) * (members() + 1));
    if (!equal) {
      check(cudaMemsetAsync(from, 0, bytes(most) * members(), call_.stream), "cudaMemsetAsync");
    }
    for (std::size_t p = 0; p < given.size(); ++p) {
      pack(given[p], call_.buffers[0], from + p * bytes(most));
    }
    to = from + members() * bytes(most);
  }
  call_.call("ncclReduceScatter", [&] {
    return ncclReduceScatter(from, to, static_cast<std::size_t>(most), type_, operation_,
                             call_.communicator, call_.stream);
  });
  if (to != taken.direct) unpack(taken, to, call_.buffers[1]);
}

void TransferRun::all_gather() {
  const Piece given = whole(*call_.transfer.source, call_.buffers[0]);
  const auto taken = parts(*call_.transfer.target, call_.buffers[1], call_.transfer.target_cut);
  std::vector<std::byte*> starts;
  std::int64_t most = 0;
  bool equal = true;
  for (const Piece& piece : taken) {
    starts.push_back(piece.direct);
    most = std::max(most, piece.count);
    equal = equal && piece.count == taken[0].count;
  }
  if (most == 0) return;
  std::byte *from = given.direct, *to = starts[0];
  const bool staged = !equal || from == nullptr || !lie_side_by_side(starts, bytes(most));
  if (staged) {
    to = call_.staging(bytes(most) * (members() + 1));
    from = to + members() * bytes(most);
    if (!equal) check(cudaMemsetAsync(from, 0, bytes(most), call_.stream), "cudaMemsetAsync");
    pack(given, call_.buffers[0], from);
  }
  call_.call("ncclAllGather", [&] {
    return ncclAllGather(from, to, bytes(most), ncclUint8, call_.communicator, call_.stream);
  });
  for (std::size_t p = 0; staged && p < taken.size(); ++p) {
    unpack(taken[p], to + p * bytes(most), call_.buffers[1]);
  }
}

// Sends and receives in one group; what stays here is copied.
void TransferRun::all_to_all() {
  const auto given = parts(*call_.transfer.source, call_.buffers[0], call_.transfer.source_cut);
  const auto taken = parts(*call_.transfer.target, call_.buffers[1], call_.transfer.target_cut);
  std::size_t needed = 0;
  for (const auto* pieces : {&given, &taken}) {
    for (const Piece& piece : *pieces) needed += piece.direct != nullptr ? 0 : bytes(piece.count);
  }
  std::byte* next = call_.staging(std::max<std::size_t>(needed, 1));
  std::vector<std::byte*> out, in;
  for (const Piece& piece : given) {
    out.push_back(piece.direct != nullptr ? piece.direct : next);
    if (piece.direct != nullptr) continue;
    pack(piece, call_.buffers[0], next);
    next += bytes(piece.count);
  }
  for (const Piece& piece : taken) {
    in.push_back(piece.direct != nullptr ? piece.direct : next);
    if (piece.direct == nullptr) next += bytes(piece.count);
  }
  call_.call("sends and receives of an all-to-all", [&] {
    ncclResult_t result = ncclGroupStart();
    const auto add = [&](ncclResult_t added) {
      if (result == ncclSuccess && added != ncclInProgress) result = added;
    };
    for (std::size_t p = 0; p < members(); ++p) {
      if (p == call_.place) continue;
      const int peer = static_cast<int>(p);
      if (given[p].count > 0) {
        add(ncclSend(out[p], bytes(given[p].count), ncclUint8, peer, call_.communicator,
                     call_.stream));
      }
      if (taken[p].count > 0) {
        add(ncclRecv(in[p], bytes(taken[p].count), ncclUint8, peer, call_.communicator,
                     call_.stream));
      }
    }
    const ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
  });
  if (taken[call_.place].count > 0) {
    check(cudaMemcpyAsync(in[call_.place], out[call_.place], bytes(taken[call_.place].count),
                          cudaMemcpyDeviceToDevice, call_.stream),
          "cudaMemcpyAsync");
  }
  for (std::size_t p = 0; p < members(); ++p) {
    if (taken[p].direct == nullptr) unpack(taken[p], in[p], call_.buffers[1]);
  }
}

void TransferRun::broadcast() {
  const Piece target = whole(*call_.transfer.target, call_.buffers[1]);
  if (target.count == 0) return;
  const bool first = call_.place == 0;
  const Piece source =
      first ? whole(*call_.transfer.source, call_.buffers[0]) : Piece{.direct = target.direct};
  std::byte *from = source.direct, *to = target.direct;
  if (from == nullptr || to == nullptr) {
    std::byte* const staged = call_.staging(bytes(target.count));
    if (first && from == nullptr) {
      pack(source, call_.buffers[0], staged);
    }
    if (from == nullptr) from = staged;
    if (to == nullptr) to = staged;
  }
  call_.call("ncclBroadcast", [&] {
    return ncclBroadcast(from, to, bytes(target.count), ncclUint8, 0, call_.communicator,
                         call_.stream);
  });
  if (target.direct == nullptr) unpack(target, to, call_.buffers[1]);
}

void TransferRun::send() {
  const Piece source = whole(*call_.transfer.source, call_.buffers[0]);
  if (source.count == 0) return;
  std::byte* const from = call_.sends->take(bytes(source.count), call_.stream);
  pack(source, call_.buffers[0], from);
  const cudaStream_t stream = call_.sends->hand_over(call_.stream);
  call_.call("ncclSend", [&] {
    return ncclSend(from, bytes(source.count), ncclUint8, 1, call_.communicator, stream);
  });
  call_.sends->give();
}

void TransferRun::receive() {
  const Piece target = whole(*call_.transfer.target, call_.buffers[0]);
  if (target.count == 0) return;
  std::byte* const to =
      target.direct != nullptr ? target.direct : call_.staging(bytes(target.count));
  call_.call("ncclRecv", [&] {
    return ncclRecv(to, bytes(target.count), ncclUint8, 0, call_.communicator, call_.stream);
  });
  if (target.direct == nullptr) unpack(target, to, call_.buffers[0]);
}

}  // namespace meshwright::cuda

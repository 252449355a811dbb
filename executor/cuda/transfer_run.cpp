#include "executor/cuda/transfer_run.h"

#include "executor/cuda/cuda_work.h"

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

}  // namespace

TransferRun::TransferRun(const TransferCall& call)
    : call_(call),
      pieces_(transfer_pieces(call.transfer, call.place)),
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

void TransferRun::pack(const TransferPiece& piece, std::byte* buffer, std::byte* to) const {
  if (piece.count == 0) return;
  if (piece.direct) {
    return check(cudaMemcpyAsync(to, direct(piece, buffer), bytes(piece.count),
                                 cudaMemcpyDeviceToDevice, call_.stream),
                 "cudaMemcpyAsync");
  }
  for (const auto& [own, dense] : piece.copies) {
    launch_copy({own, buffer}, {dense, to}, width_, call_.stream);
  }
}

void TransferRun::unpack(const TransferPiece& piece, const std::byte* from,
                         std::byte* buffer) const {
  if (piece.count == 0) return;
  if (piece.direct) {
    return check(cudaMemcpyAsync(direct(piece, buffer), from, bytes(piece.count),
                                 cudaMemcpyDeviceToDevice, call_.stream),
                 "cudaMemcpyAsync");
  }
  for (const auto& [own, dense] : piece.copies) {
    launch_copy({dense, const_cast<std::byte*>(from)}, {own, buffer}, width_, call_.stream);
  }
}

std::byte* TransferRun::staging() const { return call_.staging(bytes(pieces_.staged)); }

void TransferRun::all_reduce() {
  const TransferPiece &source = pieces_.given[0], &target = pieces_.taken[0];
  if (source.count == 0) return;
  std::byte* from = direct(source, call_.buffers[0]);
  std::byte* to = direct(target, call_.buffers[1]);
  if (pieces_.staged > 0) {
    std::byte* const staged = staging();
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
  if (!target.direct) unpack(target, to, call_.buffers[1]);
}

// Parts of unequal sizes are padded to the largest.
void TransferRun::reduce_scatter() {
  const TransferPiece& taken = pieces_.taken[0];
  const std::size_t most = bytes(pieces_.most);
  if (most == 0) return;
  std::byte* from = direct(pieces_.given[0], call_.buffers[0]);
  std::byte* to = direct(taken, call_.buffers[1]);
  if (pieces_.staged > 0) {
    from = staging();
    if (!pieces_.equal) {
      check(cudaMemsetAsync(from, 0, most * members(), call_.stream), "cudaMemsetAsync");
    }
    for (std::size_t p = 0; p < members(); ++p) {
      pack(pieces_.given[p], call_.buffers[0], from + p * most);
    }
    to = from + members() * most;
  }
  call_.call("ncclReduceScatter", [&] {
    return ncclReduceScatter(from, to, static_cast<std::size_t>(pieces_.most), type_, operation_,
                             call_.communicator, call_.stream);
  });
  if (pieces_.staged > 0) unpack(taken, to, call_.buffers[1]);
}

void TransferRun::all_gather() {
  const std::size_t most = bytes(pieces_.most);
  if (most == 0) return;
  const bool staged = pieces_.staged > 0;
  std::byte* from = direct(pieces_.given[0], call_.buffers[0]);
  std::byte* to = direct(pieces_.taken[0], call_.buffers[1]);
  if (staged) {
    to = staging();
    from = to + members() * most;
    if (!pieces_.equal) check(cudaMemsetAsync(from, 0, most, call_.stream), "cudaMemsetAsync");
    pack(pieces_.given[0], call_.buffers[0], from);
  }
  call_.call("ncclAllGather", [&] {
    return ncclAllGather(from, to, most, ncclUint8, call_.communicator, call_.stream);
  });
  for (std::size_t p = 0; staged && p < members(); ++p) {
    unpack(pieces_.taken[p], to + p * most, call_.buffers[1]);
  }
}

// Sends and receives in one group; what stays here is copied.
void TransferRun::all_to_all() {
  const auto &given = pieces_.given, &taken = pieces_.taken;
  std::byte* next = pieces_.staged > 0 ? staging() : nullptr;
  std::vector<std::byte*> out, in;
  for (const TransferPiece& piece : given) {
    out.push_back(piece.direct ? direct(piece, call_.buffers[0]) : next);
    if (piece.direct) continue;
    pack(piece, call_.buffers[0], next);
    next += bytes(piece.count);
  }
  for (const TransferPiece& piece : taken) {
    in.push_back(piece.direct ? direct(piece, call_.buffers[1]) : next);
    if (!piece.direct) next += bytes(piece.count);
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
    if (!taken[p].direct) unpack(taken[p], in[p], call_.buffers[1]);
  }
}

void TransferRun::broadcast() {
  const TransferPiece& target = pieces_.taken[0];
  if (target.count == 0) return;
  const bool first = call_.place == 0;
  std::byte* to = direct(target, call_.buffers[1]);
  std::byte* from = first ? direct(pieces_.given[0], call_.buffers[0]) : to;
  if (pieces_.staged > 0) {
    std::byte* const staged = staging();
    if (first && from == nullptr) pack(pieces_.given[0], call_.buffers[0], staged);
    if (from == nullptr) from = staged;
    if (to == nullptr) to = staged;
  }
  call_.call("ncclBroadcast", [&] {
    return ncclBroadcast(from, to, bytes(target.count), ncclUint8, 0, call_.communicator,
                         call_.stream);
  });
  if (!target.direct) unpack(target, to, call_.buffers[1]);
}

void TransferRun::send() {
  const TransferPiece& source = pieces_.given[0];
  if (source.count == 0) return;
  std::byte* const from = call_.sends->take(call_.stream);
  pack(source, call_.buffers[0], from);
  const cudaStream_t stream = call_.sends->hand_over(call_.stream);
  call_.call("ncclSend", [&] {
    return ncclSend(from, bytes(source.count), ncclUint8, 1, call_.communicator, stream);
  });
  call_.sends->give();
}

void TransferRun::receive() {
  const TransferPiece& target = pieces_.taken[0];
  if (target.count == 0) return;
  std::byte* const to = target.direct ? direct(target, call_.buffers[0]) : staging();
  call_.call("ncclRecv", [&] {
    return ncclRecv(to, bytes(target.count), ncclUint8, 0, call_.communicator, call_.stream);
  });
  if (!target.direct) unpack(target, to, call_.buffers[0]);
}

}  // namespace meshwright::cuda

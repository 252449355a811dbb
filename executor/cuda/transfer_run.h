#pragma once

#include <nccl.h>

#include <functional>
#include <span>
#include <vector>

#include "costmodel/kernel/transfer.h"
#include "executor/cuda/device_memory.h"
#include "executor/cuda/send_queue.h"
#include "executor/transfer_pieces.h"

namespace meshwright::cuda {

// What one transfer is run with. `staging` gives memory for so many bytes, `call` calls
// NCCL and returns when it has taken what it was called for.
struct TransferCall {
  const Transfer& transfer;
  Precision precision = Precision::FP32;
  std::size_t place = 0;  // in the group
  std::span<std::byte* const> buffers;
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  std::function<std::byte*(std::size_t)> staging;
  SendQueue* sends = nullptr;  // of a send
  std::function<void(const char*, const std::function<ncclResult_t()>&)> call;
};

// One transfer as one device gives it to NCCL.
class TransferRun {
 public:
  explicit TransferRun(const TransferCall& call);
  void run();

 private:
  std::size_t members() const { return call_.transfer.group.size(); }
  // Null: it does not lie there as a tensor without gaps.
  std::byte* direct(const TransferPiece& piece, std::byte* buffer) const {
    return piece.direct ? buffer + bytes(*piece.direct) : nullptr;
  }
  void pack(const TransferPiece& piece, std::byte* buffer, std::byte* to) const;
  void unpack(const TransferPiece& piece, const std::byte* from, std::byte* buffer) const;
  std::byte* staging() const;
  std::size_t bytes(std::int64_t count) const { return static_cast<std::size_t>(count) * width_; }

  void all_reduce();
  void reduce_scatter();
  void all_gather();
  void all_to_all();
  void broadcast();
  void send();
  void receive();

  const TransferCall& call_;
  TransferPieces pieces_;
  std::size_t width_;
  ncclDataType_t type_;
  ncclRedOp_t operation_;
};

}  // namespace meshwright::cuda

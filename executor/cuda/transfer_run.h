#pragma once

#include <nccl.h>

#include <functional>
#include <span>
#include <vector>

#include "costmodel/kernel/transfer.h"
#include "executor/cuda/device_memory.h"
#include "executor/cuda/send_queue.h"

namespace meshwright::cuda {

// What one transfer is run with. `staging` gives memory of at least so many bytes, `call` calls
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
  // A part of an operand, as a tensor without gaps: where it is, or is to be put.
  struct Piece {
    std::vector<std::pair<Operand, Operand>> copies;  // of the operand, and of the tensor
    std::int64_t count = 0;                           // elements
    std::byte* direct = nullptr;                      // it lies there without gaps already
  };
  std::size_t members() const { return call_.transfer.group.size(); }
  Piece whole(const Operand& operand, std::byte* buffer) const;
  Piece part(const Operand& operand, std::byte* buffer, const Cut& cut, std::size_t place) const;
  std::vector<Piece> parts(const Operand& operand, std::byte* buffer, const Cut& cut) const;
  void pack(const Piece& piece, std::byte* buffer, std::byte* to) const;
  void unpack(const Piece& piece, const std::byte* from, std::byte* buffer) const;
  std::size_t bytes(std::int64_t count) const { return static_cast<std::size_t>(count) * width_; }

  void all_reduce();
  void reduce_scatter();
  void all_gather();
  void all_to_all();
  void broadcast();
  void send();
  void receive();

  const TransferCall& call_;
  std::size_t width_;
  ncclDataType_t type_;
  ncclRedOp_t operation_;
};

}  // namespace meshwright::cuda

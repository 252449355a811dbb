#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "executor/cuda/device_memory.h"
#include "executor/cuda/send_queue.h"
#include "executor/transfer_space.h"
#include "executor/transport.h"
#include "simulator/program/program.h"

namespace meshwright::cuda {

// The transfers of one device by NCCL. A group has one communicator, and each direction of a pair
// another, all made before the first step; every device runs the transfers of a group in the same
// order (agreement.h). No call blocks: the host looks again until NCCL is done with it, so that it
// sees when another device has failed. Sums are added in NCCL's order, which is fixed for one
// machine and version but not the group's: results differ from a processor's by rounding, at most
// (members - 1) units in the last place of the sum of sizes.
//
// Operands with gaps, and parts that do not lie as NCCL wants them, go through memory of the
// transfer's own lane.
class NcclTransfers {
 public:
  explicit NcclTransfers(const Program& program);
  ~NcclTransfers();
  NcclTransfers(const NcclTransfers&) = delete;
  NcclTransfers& operator=(const NcclTransfers&) = delete;

  // All devices of the plan connect at the same time, each with its GPU current. Throws DeviceError
  // if they do not all come.
  void connect(Transport& transport, const std::vector<DeviceId>& devices);

  // In the lane's stream; a send is over for the lane when it is copied. Throws PeerFailure once
  // given up.
  void run(LaneId lane, cudaStream_t stream, const Transfer& transfer,
           std::span<std::byte* const> buffers);

  // Where copies are sent from.
  std::vector<cudaStream_t> send_streams() const;
  // All that was given has been sent.
  void forget_sends();
  // Memory that they take beside the operands, known when they are connected.
  const TransferSpace& space() const { return space_; }

  // From another thread: ends what waits for other devices.
  void give_up(const std::string& reason);
  // Throws PeerFailure once given up, and DeviceError or PeerFailure if NCCL has failed since.
  void check_alive();

 private:
  struct Group {
    bool pair = false;
    std::vector<DeviceId> members;
    auto operator<=>(const Group&) const = default;
  };
  static std::string text_of(const Group& group);
  // How this device is reached, as the others read it.
  std::string meeting_text(const std::set<Group>& groups) const;
  void take_memory();
  int most_blocks() const;

  void join(const Group& group, const ncclUniqueId& id);
  ncclComm_t communicator(const Transfer& transfer);
  // Calls NCCL unless given up, and waits until it has taken what it was called for.
  void call(ncclComm_t communicator, const char* name, const std::function<ncclResult_t()>& nccl);
  void wait_for(ncclComm_t communicator, const char* name, std::optional<Seconds> limit = {});
  [[noreturn]] static void fail(ncclResult_t result, const char* name);
  std::byte* staging(LaneId lane, std::size_t bytes);

  const Program& program_;
  std::mutex mutex_;  // guards communicators against being given up while NCCL is called
  std::map<Group, ncclComm_t> communicators_;
  std::optional<std::string> given_up_;
  TransferSpace space_;
  std::unique_ptr<DeviceMemory> memory_;  // all of that
  std::map<LaneId, std::byte*> staging_;
  std::map<DevicePair, SendQueue> sends_;
};

}  // namespace meshwright::cuda

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "costmodel/base/units.h"
#include "simulator/program/program.h"

// Memory that the transfers of a GPU need beside the arena of its program. NCCL keeps nothing of
// what is sent: a send ends with its receive, which may wait for memory that its own device still
// sends from, and so in a circle. So what is sent is copied and goes from the copy, and for its
// lane a send is over with the copy, as programs expect of sends.
namespace meshwright {

using DevicePair = std::vector<DeviceId>;  // sender, then receiver
// By pair, where the receiver's receives stand in the one order of all tasks.
using ReceiveKeys = std::map<DevicePair, std::vector<OrderKey>>;
ReceiveKeys receive_keys(const Program& program);

// Copies of what is sent to one device, which take turns.
struct SendSpace {
  std::int64_t copies = 0;
  Bytes each;
  Bytes total() const { return each * copies; }
  friend bool operator==(const SendSpace&, const SendSpace&) = default;
};

struct TransferSpace {
  std::map<DevicePair, SendSpace> sends;
  std::map<LaneId, Bytes> staging;  // of what does not lie as NCCL wants it
  Bytes total() const;
  friend bool operator==(const TransferSpace&, const TransferSpace&) = default;
};

// Where a send waits for the one as many before as there are copies, no device waits for ever: when
// it stands in the one order of all tasks, the receive of that one stands before it. One more is
// there so that devices need not keep in step with that order. `receives` has the keys of those
// that the program sends to.
TransferSpace transfer_space(const Program& program, const ReceiveKeys& receives);
// Of each of the programs of all devices.
std::vector<TransferSpace> transfer_spaces(std::span<const Program> programs);

}  // namespace meshwright

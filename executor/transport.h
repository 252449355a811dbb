#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "costmodel/base/precision.h"
#include "costmodel/kernel/transfer.h"

namespace meshwright {

// What a transfer throws on a device because another one failed.
class PeerFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// How one device reaches the others. Reductions add from left to right in the order of the group
// and give the same bits on every member. Every member runs the transfers of a group in the same
// order; a transfer that does not match what another member runs is a std::logic_error that names
// both.
class Transport {
 public:
  virtual ~Transport() = default;
  // Runs the transfer and returns when its operands may be used again; a Send does not wait for its
  // Receive. `buffers` are the starts of the buffers that the operands lie in, as in the task.
  virtual void run(const Transfer& transfer, Precision precision,
                   std::span<std::byte* const> buffers) = 0;
  // What each member of a group gives, by place in the group: short texts, before a run.
  virtual std::vector<std::string> exchange(const std::vector<DeviceId>& group,
                                            std::string given) = 0;
  // Transfers of this device that wait or come later throw PeerFailure with this reason. From
  // another thread.
  virtual void give_up(const std::string& reason) = 0;
};

}  // namespace meshwright

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/process/member.h"
#include "executor/process/message_transport.h"

namespace meshwright {

// What connects the processes of a run: shared memory where they are on one machine.
class ProcessNetwork {
 public:
  // All processes of the run do this at the same time; each has the device of its number.
  ProcessNetwork(Member& member, std::vector<DeviceId> devices, std::size_t self);

  // Must not outlive the network.
  ProcessLinks links() const;
  // As Links::fail.
  void fail(const std::string& reason);
  void forget_failure();

 private:
  std::vector<DeviceId> devices_;
  std::size_t self_;
  std::vector<std::unique_ptr<Links>> all_;
  std::vector<Links*> by_process_;
};

}  // namespace meshwright

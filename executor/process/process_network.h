#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/process/member.h"
#include "executor/process/message_transport.h"
#include "executor/process/rendezvous.h"

namespace meshwright {

// How processes that may be on several machines connect with each other.
struct SeveralMachines {
  RunToken token{};
  bool loopback = true;  // all are on one, whatever they call it
};

// What connects the processes of a run: shared memory where they are on one machine, else sockets.
class ProcessNetwork {
 public:
  // All processes of the run do this at the same time; each has the device of its number, which
  // needs so much memory. Throws MemoryError where a machine does not have what its devices need
  // together.
  ProcessNetwork(Member& member, std::vector<DeviceId> devices, std::size_t self, Bytes needed,
                 const std::optional<SeveralMachines>& machines);

  // Must not outlive the network.
  ProcessLinks links() const;
  // As Links::fail.
  void fail(const std::string& reason);
  void forget_failure();

 private:
  void add(std::unique_ptr<Streams> streams, const std::vector<std::size_t>& peers);

  std::vector<DeviceId> devices_;
  std::size_t self_;
  std::vector<std::unique_ptr<Links>> all_;
  std::vector<Links*> by_process_;
};

}  // namespace meshwright

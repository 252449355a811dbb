#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/process/block_pool.h"
#include "executor/process/links.h"
#include "executor/transport.h"

namespace meshwright {

// How a process reaches the others of its run, and which device each has.
struct ProcessLinks {
  std::vector<DeviceId> devices;  // by process
  std::vector<Links*> links;      // by process; none to itself
  std::size_t self = 0;
};

// Devices that are processes. Transfers are messages from one to another; reductions are computed
// by whoever has the share, in the order of the group, and so give the bits that threads give.
class MessageTransport : public Transport {
 public:
  // Among all processes.
  using Exchange = std::function<std::vector<std::string>(const std::string&)>;

  // `attempt` tells messages of a step that is run again from those of the first time.
  MessageTransport(ProcessLinks links, Exchange exchange, std::uint64_t attempt = 0);

  void run(const Transfer& transfer, Precision precision,
           std::span<std::byte* const> buffers) override;
  std::vector<std::string> exchange(const std::vector<DeviceId>& group, std::string given) override;
  void give_up(const std::string& reason) override;

 private:
  ProcessLinks links_;
  Exchange exchange_;
  std::uint64_t attempt_;
  std::map<DeviceId, std::size_t> process_of_;
  BlockPool pool_;
};

}  // namespace meshwright

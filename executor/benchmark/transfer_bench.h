#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/kernel/transfer.h"
#include "executor/transport.h"

namespace meshwright {

// A transfer of so many bytes with the memory of one of its members.
class TransferBench {
 public:
  TransferBench(TransferKind kind, const std::vector<DeviceId>& group, Bytes bytes,
                std::size_t place);

  // Runs it so often, after one more that brings the members together: the time of this one. A Send
  // goes there and back and counts one way.
  Seconds run(Transport& transport, std::int64_t count);

 private:
  void run_once(Transport& transport);
  void ping(Transport& transport);

  std::size_t place_;
  bool is_send_;
  Transfer transfer_;                       // as this member sees it
  std::vector<std::byte> memory_, target_;  // no target: the memory itself
};

}  // namespace meshwright

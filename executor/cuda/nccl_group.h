#pragma once

#include <memory>
#include <vector>

#include "costmodel/kernel/transfer.h"
#include "executor/cuda/device_memory.h"

namespace meshwright::cuda {

// Devices of this process that transfer together through NCCL.
class NcclGroup {
 public:
  explicit NcclGroup(std::vector<int> devices);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  const std::vector<int>& devices() const { return devices_; }
  std::size_t size() const { return devices_.size(); }
  ncclComm_t member(std::size_t place) const { return members_[place]; }

 private:
  std::vector<int> devices_;
  std::vector<ncclComm_t> members_;
};

// A transfer with its memory, of which one thread starts all members' parts together.
class NcclTransfer {
 public:
  NcclTransfer(std::shared_ptr<const NcclGroup> group, TransferKind kind, std::int64_t bytes);

  // So many in a row, by the clock of the first member's device; of a Send one way.
  double seconds(std::int64_t count);

 private:
  // What a member has on its device.
  struct Member {
    explicit Member(std::size_t bytes) : range(bytes), received(bytes) {}
    Stream stream;
    DeviceMemory range, received;
    Event start, stop;
  };

  void run_once();
  void run_collective();
  void run_member(std::size_t place);
  void exchange(std::size_t place);
  void send(std::size_t from, std::size_t to);
  void wait();

  std::shared_ptr<const NcclGroup> group_;
  TransferKind kind_;
  std::size_t count_;  // floats of the whole range
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace meshwright::cuda

#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/collective.h"
#include "executor/transport.h"

namespace meshwright {

// Devices that are threads of one process. Members of a collective work in each other's memory:
// each does its share between two meetings of the whole group.
class ThreadNetwork {
 public:
  ThreadNetwork() = default;
  ThreadNetwork(const ThreadNetwork&) = delete;
  ThreadNetwork& operator=(const ThreadNetwork&) = delete;

  // The end of one device, used by one thread. Must not outlive the network.
  std::unique_ptr<Transport> endpoint(DeviceId device);
  // Every transfer that waits or comes later throws PeerFailure with this reason. The first
  // reason stays.
  void fail(const std::string& reason);

 private:
  friend class ThreadEndpoint;

  struct Meeting {
    std::condition_variable changed;
    const Transfer* first = nullptr;        // of whoever came first
    std::vector<CollectiveMember> members;  // by place in the group
    std::size_t arrived = 0, left = 0;
    std::uint64_t round = 0;
    bool working = false;
  };
  struct Channel {
    std::condition_variable changed;
    std::deque<std::pair<Transfer, std::vector<std::byte>>> sent;
  };

  struct Exchange {
    std::condition_variable changed;
    std::vector<std::string> given;  // by place in the group
    std::size_t arrived = 0, left = 0;
    bool complete = false;
  };

  // Returns with all members when all are there.
  std::vector<CollectiveMember> meet(Meeting& meeting, const CollectiveMember& member,
                                     std::size_t place);
  // Returns when all members are done.
  void part(Meeting& meeting);
  Meeting& meeting_of(const std::vector<DeviceId>& group);
  Channel& channel_of(DeviceId sender, DeviceId receiver);
  std::vector<std::string> exchange(const std::vector<DeviceId>& group, DeviceId device,
                                    std::string given);
  void throw_if_failed() const;

  std::mutex mutex_;  // guards everything below, and what meetings and channels hold
  std::map<std::vector<DeviceId>, std::unique_ptr<Meeting>> meetings_;
  std::map<std::pair<DeviceId, DeviceId>, std::unique_ptr<Channel>> channels_;
  std::map<std::vector<DeviceId>, std::unique_ptr<Exchange>> exchanges_;
  std::optional<std::string> failure_;
};

}  // namespace meshwright

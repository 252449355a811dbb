#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "costmodel/kernel/transfer.h"
#include "costmodel/price/link_use.h"
#include "planner/bound/max_plus.h"

namespace meshwright {

// What transfers take of a device's ways out, by level, as seconds of all that each can carry.
// However transfers share a way out, those that lie between two moments take no more of it than
// there is from the one to the other.
class PortLoad {
 public:
  void add(const PortLoad& other, double times = 1) {
    for (std::size_t i = 0; i < kLevels; ++i) seconds_[i] += other.seconds_[i] * times;
  }
  void add(std::size_t level, double seconds) {
    if (level < kLevels) seconds_[level] += seconds;
  }
  // Of the way that is taken most.
  double most() const { return *std::ranges::max_element(seconds_); }

 private:
  friend class PortTimes;
  static constexpr std::size_t kLevels = 4;  // others are left out
  std::array<double, kLevels> seconds_ = {};
};

// Until when a device's ways out are taken by transfers that begin one after the other.
class PortTimes {
 public:
  void add(double begin, const PortLoad& load) {
    for (std::size_t i = 0; i < until_.size(); ++i) {
      if (load.seconds_[i] > 0) until_[i] = std::max(until_[i], begin) + load.seconds_[i];
    }
  }
  double latest() const { return *std::ranges::max_element(until_); }

 private:
  std::array<double, PortLoad::kLevels> until_ = {kNever, kNever, kNever, kNever};
};

// What a transfer takes by itself, and of the ways out of a device.
struct TransferLoad {
  double seconds = 0;
  PortLoad ports = {};
};

// What a transfer sends through one of the ways out, of each byte that a member sends.
struct PortShare {
  std::size_t level = 0;
  double share = 0;
  BytesPerSecond capacity;
};
std::vector<PortShare> port_shares(const LinkMap& links, TransferKind kind,
                                   const std::vector<DeviceId>& group, DeviceId device);
// Of a transfer of which a member sends so many bytes and that takes so long alone.
PortLoad port_load(const std::vector<PortShare>& shares, double sent, Seconds alone);
PortLoad port_load(const LinkMap& links, const Transfer& transfer, Precision precision,
                   DeviceId device, Seconds alone);

}  // namespace meshwright

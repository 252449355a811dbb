#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "simulator/program/program.h"

namespace meshwright {

// Whether the transfers of programs match, for as many programs as there are: of each only what
// others see of it is kept. Sends match receives, collectives match in kind, shape and order, and
// the lists together can be run in order without waiting in a circle. check_programs says the same
// of programs that are all there at once, with more words.
class JointCheck {
 public:
  // Once for each device.
  void add(const Program& program);
  // When all have been added: what is wrong.
  std::vector<std::string> problems() const;

  std::size_t group_count() const { return groups_.size(); }
  std::int64_t transfer_count() const { return transfers_; }  // of all devices

 private:
  friend class JointLists;
  struct Entry {
    std::uint32_t group = 0;
    TransferKind kind = TransferKind::AllReduce;
    std::uint64_t work = 0;  // as work_hash
  };
  struct Group {
    bool pair = false;
    std::vector<DeviceId> members;
  };

  std::map<DeviceId, std::vector<Entry>> lists_;
  std::map<std::pair<bool, std::vector<DeviceId>>, std::uint32_t> numbers_;
  std::vector<Group> groups_;
  std::int64_t transfers_ = 0;
};

}  // namespace meshwright

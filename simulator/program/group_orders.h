#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/program/program.h"

namespace meshwright {

// The transfers that a program runs with one group, in the order of its tasks. Every member of the
// group runs the same ones in the same order.
struct GroupOrder {
  bool pair = false;                     // what goes from one device to another, in one direction
  std::vector<DeviceId> members;         // ascending; of a pair the sender, then the receiver
  std::vector<std::uint32_t> transfers;  // into Program::transfers, one for each task
  friend bool operator==(const GroupOrder&, const GroupOrder&) = default;
};

// Of a program, groups in the order of their members.
std::vector<GroupOrder> group_orders(const Program& program);

// The same for all members of a transfer, different for members that do not run the same one.
std::uint64_t work_hash(const Transfer& transfer, Precision precision);
// What that hash is of, in words: "all_gather of reals [4,8] to dim 1 among [0,1]".
std::string work_text(const Transfer& transfer);

}  // namespace meshwright

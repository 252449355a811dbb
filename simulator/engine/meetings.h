#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simulator/program/program.h"

namespace meshwright {

// Which transfer tasks of different devices are one transfer. The i-th collective of a group on one
// member is the i-th of the same group on every other; the i-th Send of a pair is its i-th Receive.
// Groups are the same when they have the same members in the same order.
struct Meetings {
  // By program and transfer task in list order: an index into `members`.
  std::vector<std::vector<std::uint32_t>> of_program;
  std::vector<std::uint32_t> members;  // how many devices take part
};

Meetings find_meetings(std::span<const Program> programs);

}  // namespace meshwright

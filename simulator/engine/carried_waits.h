#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/program/program.h"

namespace meshwright {

// Where steps follow each other, the tasks of the step before that each task waits for besides its
// lane: who used a persistent buffer last there, before the first who use it here. Of several uses
// by one lane only the first waits, for the others come after it.
struct CarriedWaits {
  std::vector<std::uint32_t> first;  // by task, and one past the last
  std::vector<TaskId> waits;

  std::span<const TaskId> of(std::size_t task) const {
    return {waits.data() + first[task], first[task + 1] - first[task]};
  }
};

CarriedWaits carried_waits(const Program& program);

}  // namespace meshwright

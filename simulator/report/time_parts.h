#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/kernel/host_copy.h"
#include "costmodel/kernel/kernel.h"
#include "costmodel/kernel/transfer.h"
#include "simulator/program/program.h"
#include "simulator/program/timeline.h"

namespace meshwright {

// What a device does during a step, every moment counted once: a kernel runs in its compute lane;
// or none does and a transfer or a copy is under way (exposed; where there are several, the one
// that started first counts); or the next kernel could run but its host has not launched it yet; or
// it is idle. A transfer is under way from when all members of its group are ready, so waiting for
// another device is idle time. What runs after the end of the step counts at the start of the next,
// which is the same moment of this one.
struct TimeParts {
  std::map<Phase, Seconds> kernels;         // every phase, also those that took no time
  std::map<Purpose, Seconds> transfers;     // every purpose the program has
  std::map<CopyDirection, Seconds> copies;  // every direction the program has
  Seconds recomputation;                    // kernels and exposed transfers that only repeat
  Seconds dispatch, idle;
  Seconds between_steps;  // beside what is played
  friend bool operator==(const TimeParts&, const TimeParts&) = default;
};

TimeParts time_parts(const Program& program, const DeviceTimeline& device, Seconds step);

// All kernels, also those that repeat.
Seconds kernel_time(const TimeParts& parts);
// Names as reports have them: "forward", "optimizer", "tensor_transfer", "copy_to_host", "idle".
// They add up to the step. "between_steps" is there where it takes time.
std::vector<std::pair<std::string, Seconds>> named_parts(const TimeParts& parts);

}  // namespace meshwright

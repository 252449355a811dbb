#pragma once

#include <array>
#include <vector>

#include "costmodel/units.h"
#include "simulator/program.h"

namespace meshwright {

struct TaskSpan {
  Seconds start, finish;
  friend bool operator==(const TaskSpan&, const TaskSpan&) = default;
};

using ComponentBytes = std::array<Bytes, kComponents>;
Bytes total(const ComponentBytes& bytes);

// What a device holds from `time` on.
struct MemorySample {
  Seconds time;
  ComponentBytes bytes;
  friend bool operator==(const MemorySample&, const MemorySample&) = default;
};

struct DeviceTimeline {
  DeviceId device;
  std::vector<TaskSpan> tasks;  // by the index of the program's task
  std::vector<MemorySample> memory;
  friend bool operator==(const DeviceTimeline&, const DeviceTimeline&) = default;
};

// When each task of each device ran in one step: what the simulator predicts and what the
// executor measures.
struct Timeline {
  std::vector<DeviceTimeline> devices;
  Seconds step;
  friend bool operator==(const Timeline&, const Timeline&) = default;
};

}  // namespace meshwright

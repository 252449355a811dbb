#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/price/cost_model.h"
#include "simulator/program/program.h"

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

// Of one device, or of `count` equal ones of which it is the first.
struct DeviceTimeline {
  DeviceId device;
  std::int64_t count = 1;
  std::vector<TaskSpan> tasks;       // by the index of the program's task
  std::vector<MemorySample> memory;  // of its own
  Bytes host_peak;                   // the most it has on its host at once
  // Where launching is a limit: when the host has launched each task.
  std::vector<Seconds> launches;
  friend bool operator==(const DeviceTimeline&, const DeviceTimeline&) = default;
};

// When each task of each device ran in one step: what the simulator predicts and what the
// executor measures. Times count from the start of the step; where steps repeat, a task may finish
// after its end, beside tasks of the next step.
struct Timeline {
  std::vector<DeviceTimeline> devices;
  Seconds step;
  // What all tasks of all devices take alone, by where their prices come from. Measured: nothing.
  std::map<PriceOrigin, Seconds> priced = {};
  friend bool operator==(const Timeline&, const Timeline&) = default;
};

}  // namespace meshwright

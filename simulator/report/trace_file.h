#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/base/ids.h"
#include "costmodel/base/json_input.h"
#include "costmodel/base/units.h"
#include "simulator/program/program.h"
#include "simulator/program/timeline.h"

namespace meshwright {

// A task as a trace has it: what it was and when it ran, without the program.
struct TracedTask {
  TaskKind task = TaskKind::Kernel;
  std::string name;      // "layers.0.attention.qkv forward"
  std::string kind;      // "matmul", "all_reduce", "to host"
  std::string part;      // of a kernel: "forward"; of a transfer: "gradients". Of a copy: empty
  std::size_t lane = 0;  // of TracedDevice::lanes
  TaskSpan span;         // in whole nanoseconds
  std::optional<std::int32_t> microbatch;
  bool recompute = false;
  Bytes bytes;                  // that a kernel moves, a transfer has in all, a copy copies
  std::int64_t flops = 0;       // of a kernel
  double sent_bytes = 0;        // of a transfer, by this device
  std::vector<DeviceId> group;  // of a transfer
  friend bool operator==(const TracedTask&, const TracedTask&) = default;
};

struct TracedDevice {
  DeviceId device;
  std::int64_t count = 1;  // equal devices, of which it is the first
  std::vector<std::string> lanes;
  std::vector<TracedTask> tasks;  // in the order of the program
  std::vector<MemorySample> memory;
  friend bool operator==(const TracedDevice&, const TracedDevice&) = default;
};

// A timeline with what its tasks are: what a trace file holds.
struct Trace {
  Seconds step;
  std::vector<TracedDevice> devices;
  friend bool operator==(const Trace&, const Trace&) = default;
};
Trace trace_of(std::span<const Program> programs, const Timeline& timeline);
TracedTask traced_task(const Program& program, const Task& task, const TaskSpan& span);

// A trace in the JSON form of Chrome's trace events, which ui.perfetto.dev and chrome://tracing
// open: a process for each device, a thread for each of its lanes, a complete event for each task
// and counters of memory by component. Times are rounded to nanoseconds, as those programs do, in
// such a way that tasks of a lane do not come to overlap.
// Format: "Trace Event Format", Google, sections "Complete Events", "Counter Events", "Metadata".
std::string trace_text(std::span<const Program> programs, const Timeline& timeline);

// What trace_text wrote: read_trace of its text is trace_of. Throws InputError.
Trace read_trace(const JsonInput& input);

}  // namespace meshwright

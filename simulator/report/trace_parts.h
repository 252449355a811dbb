#pragma once

#include <string>
#include <vector>

#include "simulator/report/trace_file.h"

namespace meshwright {

// What a device spends on tasks of one kind: of kernels when they run, of transfers and copies what
// no kernel hides.
struct KindTime {
  std::string part;  // as named_parts has it: "forward", "tensor_transfer", "idle"
  std::string kind;  // "matmul", "all_reduce"; empty: of no task
  Seconds time;
  friend bool operator==(const KindTime&, const KindTime&) = default;
};

// By the rules of TimeParts, from a trace alone: they add up to the step, and the kinds of a part
// to what named_parts has of it but for rounding to nanoseconds. What the host is late by, a trace
// does not say: it is idle. By part in the order of named_parts, then by kind.
std::vector<KindTime> kind_times(const TracedDevice& device, Seconds step);

// Shares of what they add up to.
struct TimeShares {
  double computing = 0;  // with all that is recomputed
  double exposed = 0;    // transfers and copies
  double idle = 0;
};
TimeShares shares_of(const std::vector<KindTime>& times);

// What of a device lies in a stretch of time, as if that were a step: times count from its start,
// and kind_times adds up to its length.
TracedDevice cut_to(const TracedDevice& device, const TaskSpan& range);
TracedDevice cut_to(const Program& program, const DeviceTimeline& device, const TaskSpan& range);

// The device whose times stand for the step: that finishes last; of several the one that computes
// longest. Of at least one.
std::size_t last_device(const Trace& trace);

}  // namespace meshwright

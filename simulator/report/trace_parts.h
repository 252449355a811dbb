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

// The device whose times stand for the step: that finishes last; of several the one that computes
// longest. Of at least one.
std::size_t last_device(const Trace& trace);

}  // namespace meshwright

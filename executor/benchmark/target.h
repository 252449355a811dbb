#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/ids.h"
#include "costmodel/kernel/host_copy.h"
#include "costmodel/kernel/kernel.h"
#include "costmodel/profile/profile.h"
#include "executor/benchmark/measure.h"

namespace meshwright {

// What is measured: devices of one kind with their kernels and what connects them.
class BenchmarkTarget {
 public:
  virtual ~BenchmarkTarget() = default;
  virtual Provenance provenance() const = 0;
  // Without evidence.
  virtual DeviceRecord device() const = 0;
  // Ready to run on device 0; owns its memory. None: there is no such kernel.
  virtual std::optional<Timed> kernel(const Kernel& kernel, Precision precision) = 0;
  // Among the devices of the group. A Send is timed one way.
  virtual Timed transfer(TransferKind kind, const std::vector<DeviceId>& group, Bytes bytes) = 0;
  // Between device 0 and its host, as offloading copies; no direction: within the device's memory.
  virtual Timed copy(std::optional<CopyDirection> direction, Bytes bytes) = 0;
};

}  // namespace meshwright

#pragma once

#include "executor/benchmark/target.h"

namespace meshwright {

// Threads of this process with the kernels of cpu/ and the transport of thread_transport: what
// `run` trains with. Operands stay in the cache where they fit, as they mostly do from one kernel
// to the next. Threads are not bound to cores, as in `run`. Kernels are timed by the processor time
// of their thread, so that other programs disturb little; transfers by the clock.
class CpuTarget : public BenchmarkTarget {
 public:
  CpuTarget(std::string machine, std::string software, std::int64_t devices, Bytes memory)
      : machine_(std::move(machine)),
        software_(std::move(software)),
        devices_(devices),
        memory_(memory) {}

  Provenance provenance() const override;
  DeviceRecord device() const override;
  std::optional<Timed> kernel(const Kernel& kernel, Precision precision) override;
  Timed transfer(TransferKind kind, const std::vector<DeviceId>& group, Bytes bytes) override;
  // The host is the same memory: all copies are alike.
  Timed copy(std::optional<CopyDirection> direction, Bytes bytes) override;

 private:
  std::string machine_, software_;
  std::int64_t devices_;
  Bytes memory_;  // of the machine
};

// What this machine calls itself: "Intel(R) Xeon(R) CPU, 2 cores".
std::string machine_name();
}  // namespace meshwright

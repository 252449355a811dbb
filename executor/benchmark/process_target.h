#pragma once

#include <optional>
#include <vector>

#include "executor/benchmark/cpu_target.h"
#include "executor/process/process_network.h"

namespace meshwright {

// Processes as devices, with the transfers that `run` has among them. Everything else is as with
// threads, and measured in the first process, which tells the others what to do.
class ProcessTarget : public BenchmarkTarget {
 public:
  // All processes do this at the same time.
  ProcessTarget(CpuTarget own, Member& member, std::size_t processes, std::size_t self,
                const std::optional<SeveralMachines>& machines);

  ~ProcessTarget() override;

  Provenance provenance() const override { return own_.provenance(); }
  DeviceRecord device() const override;
  std::optional<Timed> kernel(const Kernel& kernel, Precision precision) override {
    return own_.kernel(kernel, precision);
  }
  Timed transfer(TransferKind kind, const std::vector<DeviceId>& group, Bytes bytes) override;
  Timed copy(std::optional<CopyDirection> direction, Bytes bytes) override {
    return own_.copy(direction, bytes);
  }

  // What the others do until the first one has finished.
  void serve();
  void finish();

 private:
  Seconds run_together(const std::string& order);

  CpuTarget own_;
  Member& member_;
  std::vector<DeviceId> devices_;
  std::size_t self_;
  ProcessNetwork network_;
  MessageTransport transport_;
};

}  // namespace meshwright

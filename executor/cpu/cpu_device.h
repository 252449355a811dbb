#pragma once

#include <atomic>
#include <cstdlib>
#include <functional>
#include <vector>

#include "executor/device.h"

namespace meshwright {

// Seconds since a moment that is the same for all devices of a run.
using RunClock = std::function<Seconds()>;

// A processor, or a part of one. What a lane is given is done when the call returns, so that lanes
// run beside each other only where several threads call; each task is one thread's.
class CpuDevice : public Device {
 public:
  CpuDevice(const Program& program, RunClock clock);

  std::byte* allocate(Space space, Bytes size) override;
  Bytes beside() const override { return {}; }
  void fill(LaneId lane, std::span<std::byte> memory, unsigned char byte) override;
  void write(LaneId lane, std::span<const std::byte> from, std::byte* to) override;
  void read(LaneId lane, const std::byte* from, std::span<std::byte> to) override;
  void copy(LaneId lane, std::span<const std::byte> from, std::byte* to) override;
  void fetch(LaneId lane, const std::byte* from, std::span<std::byte> to) override {
    read(lane, from, to);
  }
  void prepare(LaneId, const KernelCall&) override {}
  void launch(LaneId lane, const KernelCall& call) override;
  void transfer(LaneId lane, const Transfer& transfer,
                std::span<std::byte* const> buffers) override;
  void begin(LaneId lane, std::size_t task) override;
  void record(LaneId lane, std::size_t task) override;
  void wait(LaneId, std::size_t) override {}
  StretchMode begin_stretch(std::size_t, const StepSettings&) override { return StretchMode::Run; }
  void end_stretch() override {}
  void finish() override {}
  TaskSpan span(std::size_t task) const override { return spans_[task]; }
  void connect(Transport& transport) override { transport_ = &transport; }
  void give_up(const std::string& reason) override {
    if (Transport* const connected = transport_) connected->give_up(reason);
  }
  void forget_failure() override { transport_ = nullptr; }

 private:
  using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

  DeviceId device_;
  Precision precision_;
  std::atomic<Transport*> transport_ = nullptr;
  RunClock clock_;
  std::vector<Memory> memory_;
  std::vector<TaskSpan> spans_;  // by task
};

DeviceMaker cpu_devices(RunClock clock);

}  // namespace meshwright

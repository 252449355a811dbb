#include "executor/cpu/cpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "executor/cpu/kernels.h"
#include "executor/memory_error.h"
#include "simulator/program/arena.h"

namespace meshwright {

CpuDevice::CpuDevice(const Program& program, RunClock clock)
    : device_(program.device),
      precision_(program.precision),
      clock_(std::move(clock)),
      spans_(program.tasks.size()) {
  if (!has_kernels(program.precision)) {
    throw std::logic_error(fmt::format("no kernels in {}", to_text(program.precision)));
  }
}

std::byte* CpuDevice::allocate(Space, Bytes size) {
  const auto unit = static_cast<std::size_t>(kArenaAlignment.value());
  const auto bytes = std::max(unit, static_cast<std::size_t>(size.value()));
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(unit, bytes)), &std::free);
  if (memory == nullptr) {
    throw MemoryError(
        fmt::format("out of memory: device {} needs {}, which the system does not give",
                    device_.index(), to_text(size)));
  }
  memory_.push_back(std::move(memory));
  return memory_.back().get();
}

void CpuDevice::fill(LaneId, std::span<std::byte> memory, unsigned char byte) {
  std::memset(memory.data(), byte, memory.size());
}

void CpuDevice::write(LaneId, std::span<const std::byte> from, std::byte* to) {
  std::memcpy(to, from.data(), from.size());
}

void CpuDevice::read(LaneId, const std::byte* from, std::span<std::byte> to) {
  std::memcpy(to.data(), from, to.size());
}

void CpuDevice::copy(LaneId, std::span<const std::byte> from, std::byte* to) {
  std::memcpy(to, from.data(), from.size());
}

void CpuDevice::launch(LaneId, const KernelCall& call) {
  if (call.predicate == nullptr || *call.predicate != 0) run_kernel(call, precision_);
}

void CpuDevice::transfer(LaneId, const Transfer& transfer, std::span<std::byte* const> buffers) {
  transport_.load()->run(transfer, precision_, buffers);
}

void CpuDevice::begin(LaneId, std::size_t task) { spans_[task].start = clock_(); }

void CpuDevice::record(LaneId, std::size_t task) { spans_[task].finish = clock_(); }

DeviceMaker cpu_devices(RunClock clock) {
  return [clock = std::move(clock)](const Program& program, Transport&) {
    return std::make_unique<CpuDevice>(program, clock);
  };
}

}  // namespace meshwright

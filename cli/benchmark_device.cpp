#include "cli/benchmark_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "cli/library_folders.h"
#include "cli/session.h"
#include "costmodel/base/input_error.h"
#include "executor/cpu/blas.h"
#include "executor/cpu/kernels.h"
#include "executor/cuda_loader.h"
#include "executor/host_memory.h"

namespace meshwright {
namespace {

std::int64_t core_count() {
  return static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
}

std::vector<Precision> usual_precisions(BenchmarkDevice device, bool quick) {
  if (device == BenchmarkDevice::Cpu) {
    return quick ? std::vector{Precision::FP32} : std::vector{Precision::FP32, Precision::FP64};
  }
  if (quick) return {Precision::BF16};
  return {Precision::BF16, Precision::FP8, Precision::FP32, Precision::TF32};
}

bool has_precision(BenchmarkDevice device, Precision precision) {
  return device == BenchmarkDevice::Cuda || has_kernels(precision);
}

}  // namespace

std::vector<Precision> precisions_of(const DeviceChoice& choice) {
  if (choice.precisions.empty()) return usual_precisions(choice.device, choice.quick);
  std::vector<Precision> precisions;
  for (const std::string& text : choice.precisions) {
    const auto precision = parse_precision(text);
    if (!precision || !has_precision(choice.device, *precision)) {
      throw UsageError(fmt::format("--precision {}: expected {}", printable(text),
                                   choice.device == BenchmarkDevice::Cpu
                                       ? "fp32, fp64, bf16 or fp16"
                                       : "bf16, fp16, fp8, fp32, tf32 or fp64"));
    }
    precisions.push_back(*precision);
  }
  return precisions;
}

std::unique_ptr<BenchmarkTarget> target_of(const DeviceChoice& choice) {
  if (choice.device == BenchmarkDevice::Cuda) {
    return load_cuda_target(
        library_folders(),
        {.version = MESHWRIGHT_VERSION, .machine = choice.machine, .devices = choice.devices});
  }
  return std::make_unique<CpuTarget>(cpu_target_of(choice));
}

CpuTarget cpu_target_of(const DeviceChoice& choice) {
  return {choice.machine.value_or(machine_name()),
          fmt::format("meshwright {}, {}", MESHWRIGHT_VERSION, blas_name()),
          choice.devices.value_or(std::min<std::int64_t>(core_count(), 16)), total_memory()};
}

BenchmarkScope scope_of(const DeviceChoice& choice, const BenchmarkTarget& target) {
  return {
      .quick = choice.quick,
      .sizes = choice.device == BenchmarkDevice::Cuda ? BenchmarkSizes::Gpu : BenchmarkSizes::Core,
      .devices = target.device().devices,
      .precisions = precisions_of(choice)};
}

void set_message_sizes(BenchmarkDevice device, BenchmarkSettings& settings) {
  if (device == BenchmarkDevice::Cpu) return;
  settings.large_message = 256_MiB;
  settings.large_copy = 256_MiB;
}

}  // namespace meshwright

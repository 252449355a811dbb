#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/benchmark/benchmark.h"
#include "executor/benchmark/cpu_target.h"

namespace meshwright {

// What `benchmark --device` may name.
enum class BenchmarkDevice { Cpu, Cuda };

// What is measured of it, as the options say.
struct DeviceChoice {
  BenchmarkDevice device = BenchmarkDevice::Cpu;
  bool quick = false;
  std::optional<std::int64_t> devices;
  std::vector<std::string> precisions;
  std::optional<std::string> machine;
};

// Throws UsageError for precisions that the device does not have.
std::vector<Precision> precisions_of(const DeviceChoice& choice);
// Throws EnvironmentError if there is no such device.
std::unique_ptr<BenchmarkTarget> target_of(const DeviceChoice& choice);
CpuTarget cpu_target_of(const DeviceChoice& choice);
BenchmarkScope scope_of(const DeviceChoice& choice, const BenchmarkTarget& target);
// How large messages and copies must be for a bandwidth to show.
void set_message_sizes(BenchmarkDevice device, BenchmarkSettings& settings);

}  // namespace meshwright

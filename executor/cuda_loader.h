#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/benchmark/target.h"
#include "executor/cuda/cuda_library.h"

namespace meshwright {

// Loads the CUDA library from the first of these folders that has it, and asks it for this
// machine's GPUs. Throws EnvironmentError when there is no such library, when it cannot be loaded,
// and when there is no driver or no device, or not as many as are asked for.
std::unique_ptr<BenchmarkTarget> load_cuda_target(std::span<const std::filesystem::path> folders,
                                                  const CudaRequest& request);

// GPUs for the devices of a plan, by the same library: one for each that runs in this process, of
// those that it sees the next one that no device before it on this machine has. `clock` is the same
// for all of them. Making one throws as above, and says which device has no GPU.
DeviceMaker cuda_devices(std::span<const std::filesystem::path> folders, const std::string& version,
                         const std::vector<DeviceId>& devices, std::function<Seconds()> clock,
                         CudaRunOptions options = {});

}  // namespace meshwright

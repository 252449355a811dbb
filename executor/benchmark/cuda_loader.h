#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "executor/benchmark/target.h"
#include "executor/cuda/cuda_library.h"

namespace meshwright {

// Loads the CUDA library from the first of these folders that has it, and asks it for this
// machine's GPUs. Throws EnvironmentError when there is no such library, when it cannot be loaded,
// and when there is no driver or no device, or not as many as are asked for.
std::unique_ptr<BenchmarkTarget> load_cuda_target(std::span<const std::filesystem::path> folders,
                                                  const CudaRequest& request);

}  // namespace meshwright

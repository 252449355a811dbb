#pragma once

#include <memory>
#include <optional>
#include <string>

#include "executor/benchmark/target.h"

namespace meshwright {

// What the program asks its CUDA library for. Both are built from one source by one compiler; the
// version says that they still are.
struct CudaRequest {
  std::string version;                  // the program's
  std::optional<std::string> machine;   // what to call it; none: after its devices
  std::optional<std::int64_t> devices;  // none: all
};

// The one function of the library. The caller owns what it returns. Throws EnvironmentError.
inline constexpr const char* kCudaTargetFunction = "meshwright_cuda_target";
using CudaTargetFunction = BenchmarkTarget* (*)(const CudaRequest& request);

inline constexpr const char* kCudaLibraryFile = "libmeshwright_cuda.so";

}  // namespace meshwright

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "executor/benchmark/target.h"
#include "executor/device.h"
#include "executor/step_settings.h"

namespace meshwright {

// What the program asks its CUDA library for. Both are built from one source by one compiler; the
// version says that they still are.
struct CudaRequest {
  std::string version;                  // the program's
  std::optional<std::string> machine;   // what to call it; none: after its devices
  std::optional<std::int64_t> devices;  // none: all
};

// One kernel on the first device, with operands in the host's memory: what a test compares with a
// processor's kernel.
struct CudaCall {
  const Kernel& kernel;
  Precision precision = Precision::FP32;
  const StepSettings& settings;
  std::vector<std::byte*> buffers;  // of the operands
  std::vector<std::size_t> bytes;
  std::vector<std::int64_t> counts = {};  // as KernelCall has them
};

struct CudaRunOptions {
  // Holds lanes up for a while now and then, drawn by this seed: what rests on luck shows.
  std::optional<std::uint32_t> delays = {};
  bool graphs = false;  // steps are captured once and launched from then on
};

// The GPU for one device of a plan. All must outlive it but the request itself.
struct CudaDeviceRequest {
  std::string version;  // the program's
  const Program& program;
  std::vector<DeviceId> devices;   // of the plan
  std::size_t gpu = 0;             // of those that the process sees
  std::function<Seconds()> clock;  // the same for all devices of a run
  CudaRunOptions options = {};
};

// The library's functions. Throw EnvironmentError, and DeviceError when a device fails.
// The caller owns what it returns.
inline constexpr const char* kCudaTargetFunction = "meshwright_cuda_target";
using CudaTargetFunction = BenchmarkTarget* (*)(const CudaRequest& request);
// False: there is no such kernel.
inline constexpr const char* kCudaRunFunction = "meshwright_cuda_run";
using CudaRunFunction = bool (*)(const CudaCall& call);

// Throws EnvironmentError that names a kernel of the program for which GPUs have none, too.
inline constexpr const char* kCudaDeviceFunction = "meshwright_cuda_device";
using CudaDeviceFunction = Device* (*)(const CudaDeviceRequest& request);

inline constexpr const char* kCudaLibraryFile = "libmeshwright_cuda.so";

}  // namespace meshwright

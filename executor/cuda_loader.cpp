#include "executor/cuda_loader.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "executor/environment_error.h"
#include "executor/process/machine.h"

namespace meshwright {
namespace {

std::filesystem::path library_in(std::span<const std::filesystem::path> folders) {
  std::error_code unreadable;
  for (const auto& folder : folders) {
    const auto file = folder / kCudaLibraryFile;
    if (std::filesystem::exists(file, unreadable)) return file;
  }
  throw EnvironmentError(
      fmt::format("this program was built without CUDA: there is no {} beside it; build it where "
                  "nvcc, cuBLASLt and NCCL are installed",
                  kCudaLibraryFile));
}

// It stays for as long as the program runs: what it returns has its code.
template <class Function>
Function cuda_function(std::span<const std::filesystem::path> folders, const char* name) {
  const auto file = library_in(folders);
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    throw EnvironmentError(fmt::format("the CUDA library cannot be loaded: {}", ::dlerror()));
  }
  const auto function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) {
    throw EnvironmentError(
        fmt::format("{} is no CUDA library of Meshwright: {}", file.string(), ::dlerror()));
  }
  return function;
}

// Devices that see the same GPUs of one machine take them in the order of the plan.
std::size_t gpu_of(DeviceId device, Transport& transport, const std::vector<DeviceId>& devices) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string seen = machine_identity() + " " + (visible == nullptr ? "all" : visible);
  const auto others = transport.exchange(devices, seen);
  const auto self = std::ranges::find(devices, device) - devices.begin();
  return static_cast<std::size_t>(std::count(others.begin(), others.begin() + self, seen));
}

}  // namespace

std::unique_ptr<BenchmarkTarget> load_cuda_target(std::span<const std::filesystem::path> folders,
                                                  const CudaRequest& request) {
  const auto make = cuda_function<CudaTargetFunction>(folders, kCudaTargetFunction);
  return std::unique_ptr<BenchmarkTarget>(make(request));
}

DeviceMaker cuda_devices(std::span<const std::filesystem::path> folders, const std::string& version,
                         const std::vector<DeviceId>& devices, std::function<Seconds()> clock,
                         CudaRunOptions options) {
  const auto make = cuda_function<CudaDeviceFunction>(folders, kCudaDeviceFunction);
  return [=](const Program& program, Transport& transport) {
    const std::size_t gpu = gpu_of(program.device, transport, devices);
    return std::unique_ptr<Device>(make({version, program, devices, gpu, clock, options}));
  };
}

}  // namespace meshwright

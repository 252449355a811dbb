#include "executor/benchmark/cuda_loader.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "executor/environment_error.h"

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

}  // namespace

std::unique_ptr<BenchmarkTarget> load_cuda_target(std::span<const std::filesystem::path> folders,
                                                  const CudaRequest& request) {
  const auto file = library_in(folders);
  // It stays for as long as the program runs: what it returns has its code.
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    throw EnvironmentError(fmt::format("the CUDA library cannot be loaded: {}", ::dlerror()));
  }
  const auto make = reinterpret_cast<CudaTargetFunction>(::dlsym(library, kCudaTargetFunction));
  if (make == nullptr) {
    throw EnvironmentError(
        fmt::format("{} is no CUDA library of Meshwright: {}", file.string(), ::dlerror()));
  }
  return std::unique_ptr<BenchmarkTarget>(make(request));
}

}  // namespace meshwright

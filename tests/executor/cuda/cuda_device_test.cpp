#include <dlfcn.h>

#include <catch2/catch.hpp>

#include "executor/environment_error.h"
#include "tests/executor/cuda/device_difference.h"

// What the CUDA library computes on a GPU, against this processor. On a machine without one only
// the refusal is tested, and a warning says so.
namespace meshwright {
namespace {

CudaRunFunction run_function() {
  void* const library = ::dlopen(MESHWRIGHT_CUDA_FILE, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  REQUIRE(library != nullptr);
  const auto run = reinterpret_cast<CudaRunFunction>(::dlsym(library, kCudaRunFunction));
  REQUIRE(run != nullptr);
  return run;
}

}  // namespace

TEST_CASE("kernels on a GPU give what this processor's give") {
  const CudaRunFunction run = run_function();
  for (const Kernel& kernel : kernel_cases()) {
    if (kernel.kind == KernelKind::Attention) continue;
    CAPTURE(to_text(kernel.kind), to_text(kernel.phase));
    try {
      const auto in_double = device_difference<double>(run, kernel, Precision::FP64);
      const auto in_single = device_difference<float>(run, kernel, Precision::FP32);
      REQUIRE(in_double);
      REQUIRE(in_single);
      CHECK(*in_double < 1e-12);
      CHECK(*in_single < 1e-5);
    } catch (const EnvironmentError& missing) {
      CHECK_THAT(missing.what(), Catch::Contains("CUDA: "));
      WARN("no kernel was run: " << missing.what());
      return;
    }
  }
}

}  // namespace meshwright

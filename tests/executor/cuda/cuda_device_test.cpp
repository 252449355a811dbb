#include <dlfcn.h>

#include <catch2/catch.hpp>

#include "executor/cpu/kernels.h"
#include "executor/cuda/cuda_library.h"
#include "executor/environment_error.h"
#include "tests/executor/small_kernels.h"

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

// The largest difference between the two. None: the GPU has no such kernel.
template <class Real>
std::optional<double> difference(CudaRunFunction run, const Kernel& kernel, Precision precision) {
  const StepSettings settings{.seed = 7, .step = 2, .label_share = 0.25, .clip = 0.5};
  KernelMemory<Real> expected(kernel), found(kernel);
  run_kernel({kernel, expected.buffers, settings, 0}, precision);
  CudaCall call{kernel, precision, settings, found.buffers, {}};
  for (const Operand& operand : kernel.operands) {
    const Bytes width = bytes_per_element(operand.element, precision);
    call.bytes.push_back(static_cast<std::size_t>(width.value() * element_count(operand)));
  }
  if (!run(call)) return {};
  return largest_difference(kernel, expected, found);
}

}  // namespace

TEST_CASE("kernels on a GPU give what this processor's give") {
  const CudaRunFunction run = run_function();
  for (const Kernel& kernel : small_kernels()) {
    if (kernel.kind == KernelKind::Attention) continue;
    CAPTURE(to_text(kernel.kind), to_text(kernel.part));
    try {
      const auto in_double = difference<double>(run, kernel, Precision::FP64);
      const auto in_single = difference<float>(run, kernel, Precision::FP32);
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

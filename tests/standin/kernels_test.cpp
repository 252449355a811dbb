#include <catch2/catch.hpp>

#include "executor/device_error.h"
#include "tests/executor/cuda/device_difference.h"
#include "tests/standin/standin.h"
#include "tests/test_scale.h"

extern "C" bool meshwright_cuda_run(const meshwright::CudaCall& call);

// Level C: every kernel of the GPU back end, thread by thread.
namespace meshwright::standin {
namespace {

void check_kernels(const std::vector<Kernel>& kernels, std::uint32_t seed) {
  restart({.devices = 1, .seed = seed});
  for (const Kernel& kernel : kernels) {
    if (kernel.kind == KernelKind::Attention) continue;
    CAPTURE(seed, to_text(kernel.kind), to_text(kernel.phase), kernel.operands[0].sizes);
    const auto in_double = device_difference<double>(meshwright_cuda_run, kernel, Precision::FP64);
    const auto in_single = device_difference<float>(meshwright_cuda_run, kernel, Precision::FP32);
    REQUIRE(in_double);
    REQUIRE(in_single);
    CHECK(*in_double < 1e-12);
    CHECK(*in_single < 1e-5);
  }
  CHECK(faults() == std::vector<std::string>{});
  CHECK(used_bytes(0) == 0);
}

}  // namespace

TEST_CASE("every kernel of the GPU back end gives what the processor's gives, in any order") {
  for (std::uint32_t seed = 0; seed < static_cast<std::uint32_t>(cases(2, 30)); ++seed) {
    check_kernels(kernel_cases(), seed);
    // Rows that several warps share, and more than a block can hold at once.
    check_kernels(kernel_cases({3, 70, 40}), seed);
    check_kernels(kernel_cases({2, 600, 3}), seed);
  }
}

TEST_CASE("a call that fails is an error that names it, and nothing is left behind") {
  const auto kernel = kernel_with({{KernelKind::RmsNorm, Phase::Forward, ""}, {7, 9}});
  REQUIRE(kernel);
  const auto run = [&] {
    return device_difference<double>(meshwright_cuda_run, *kernel, Precision::FP64);
  };
  for (const char* function : {"cudaMalloc", "cudaLaunchKernel", "cudaMemcpy", "kernel",
                               "cudaStreamCreateWithFlags", "cudaDeviceSynchronize"}) {
    CAPTURE(function);
    restart({.devices = 1, .failure = Failure{function, 1}});
    CHECK_THROWS_AS(run(), DeviceError);
    CHECK(used_bytes(0) == 0);
    restart({.devices = 1});
    CHECK(run() < 1e-12);
  }
}

}  // namespace meshwright::standin

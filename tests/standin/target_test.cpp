#include <catch2/catch.hpp>
#include <filesystem>

#include "executor/cuda_loader.h"
#include "executor/environment_error.h"
#include "tests/executor/small_kernels.h"
#include "tests/standin/standin.h"

// What `meshwright benchmark --device cuda` measures, on the stand-in.
namespace meshwright::standin {
namespace {

std::unique_ptr<BenchmarkTarget> target(const Options& options,
                                        std::optional<std::int64_t> devices = {}) {
  restart(options);
  const std::vector<std::filesystem::path> folders = {MESHWRIGHT_STANDIN_FOLDER};
  return load_cuda_target(folders,
                          {.version = MESHWRIGHT_VERSION, .machine = {}, .devices = devices});
}

}  // namespace

TEST_CASE("the benchmark of GPUs measures every kernel, transfer and copy") {
  const auto gpus = target({.devices = 4, .seed = 5});
  CHECK(gpus->device().devices == 4);
  CHECK(gpus->device().memory == Bytes(std::int64_t{1} << 30));
  for (const Precision precision : {Precision::FP64, Precision::FP32, Precision::BF16}) {
    for (const Kernel& kernel : kernel_cases()) {
      // Attention in 16 bits is cuDNN's, whose heads are in eights.
      if (kernel.kind == KernelKind::Attention) continue;
      CAPTURE(to_text(precision), to_text(kernel.kind), to_text(kernel.phase));
      const auto timed = gpus->kernel(kernel, precision);
      REQUIRE(timed);
      CHECK((*timed)(3) > Seconds(0));
    }
  }
  const std::vector<DeviceId> pair = {DeviceId(0), DeviceId(2)};
  const std::vector<DeviceId> all = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
  for (const TransferKind kind :
       {TransferKind::AllReduce, TransferKind::ReduceScatter, TransferKind::AllGather,
        TransferKind::Broadcast, TransferKind::AllToAll}) {
    CHECK(gpus->transfer(kind, all, Bytes(4096))(2) > Seconds(0));
  }
  CHECK(gpus->transfer(TransferKind::Send, pair, Bytes(4096))(2) > Seconds(0));
  CHECK(gpus->copy({}, Bytes(4096))(2) > Seconds(0));
  CHECK(gpus->copy(CopyDirection::ToHost, Bytes(4096))(2) > Seconds(0));
  CHECK(gpus->copy(CopyDirection::FromHost, Bytes(4096))(2) > Seconds(0));
  CHECK(faults() == std::vector<std::string>{});
}

TEST_CASE("attention of GPUs is timed forward and backward, by cuDNN in 16 bits or by ours") {
  const auto gpus = target({.devices = 1});
  for (const Phase phase : {Phase::Forward, Phase::InputGradient}) {
    const auto kernel = kernel_with({{KernelKind::Attention, phase, "causal 16"}, {2, 12}});
    REQUIRE(kernel);
    const auto timed = gpus->kernel(*kernel, Precision::BF16);
    REQUIRE(timed);
    CHECK((*timed)(2) > Seconds(0));
    CHECK(gpus->kernel(*kernel, Precision::FP64));
  }
  CHECK(faults() == std::vector<std::string>{});
}

TEST_CASE("a machine without devices, or with fewer than are asked for, is refused") {
  CHECK_THROWS_AS(target({.devices = 0}), EnvironmentError);
  CHECK_THROWS_WITH(target({.devices = 2}, 3), "CUDA: this machine has 2 devices, asked for 3");
}

}  // namespace meshwright::standin

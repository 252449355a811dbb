#include "executor/cuda/cudnn_plan.h"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <string>

#include "executor/cuda/attention_graph.h"

namespace meshwright::cuda {
namespace {

// A device as cuDNN describes one to itself, in what its plans depend on. Numbers that differ are
// those of CUDA's programming guide (compute capabilities) and the data sheets.
struct Gpu {
  const char* name;
  int version, multiprocessors, shared_memory, l2;
};
constexpr Gpu kA100{"NVIDIA A100-SXM4-80GB", 800, 108, 166912, 41943040};
constexpr Gpu kH100{"NVIDIA H100 80GB HBM3", 900, 132, 232448, 52428800};
constexpr Gpu kB200{"NVIDIA B200", 1000, 148, 232448, 132644864};

std::string json_of(const Gpu& gpu) {
  const auto number = [](const char* name, long long value) {
    return ",\"" + std::string(name) + "\":" + std::to_string(value);
  };
  return R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64])" +
         number("multiProcessorCount", gpu.multiprocessors) + number("deviceVer", gpu.version) +
         number("maxSharedMemoryPerBlockOptin", gpu.shared_memory) + number("l2CacheSize", gpu.l2) +
         number("regsPerBlock", 65536) + number("warpSize", 32) +
         number("maxSharedMemoryPerBlock", 49152) + number("reservedSharedMemoryPerBlock", 1024) +
         number("maxRegistersPerSM", 65536) + number("maxCtasPerSM", 32) +
         number("maxThreadsPerBlock", 1024) + number("maxThreadsPerSM", 2048) +
         number("pciDeviceId", 0) + number("isTccDriver", 0) + number("supportCoopLaunch", 1) +
         number("smClockRateKHz", 1755000) + number("memClockRateKHz", 2619000) +
         number("driverVer", 13000) + number("cudaDeviceId", 0) +
         number("totalGlobalMem", 80LL << 30) + ",\"deviceName\":\"" + gpu.name + "\"}";
}

PlanDevice described(const Gpu& gpu) {
  // cuDNN looks for a driver by this library's name, and takes what is there.
  REQUIRE(::dlopen(MESHWRIGHT_STAND_IN_DRIVER, RTLD_NOW | RTLD_GLOBAL) != nullptr);
  const std::string json = json_of(gpu);
  const Description description(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  description.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                  static_cast<std::int64_t>(json.size()), json.data());
  description.finish();
  return {.handle = {}, .described = description};
}

// Bytes that attention has beside its operands: what cuDNN asks for, row sums and the sums of dq.
std::int64_t extra_bytes(const AttentionShape& shape, const Plan& plan) {
  const std::int64_t rows = shape.batch * shape.heads * shape.sequence;
  return plan.workspace + 4 * rows + 4 * rows * shape.size;
}

}  // namespace

TEST_CASE("cuDNN has attention of our graphs for every generation of GPUs") {
  const Gpu gpu = GENERATE(kA100, kH100, kB200);
  CAPTURE(gpu.name);
  const PlanDevice device = described(gpu);
  const AttentionShape shape{
      .batch = 1, .heads = 64, .sequence = 2048, .size = 128, .value_size = 128};
  const auto forward = plan_of(attention_forward_graph(shape, 0.125f).graph, device);
  REQUIRE(forward);
  // No scores are kept: they would be 512 MiB.
  CHECK(forward->workspace < 1 << 20);
  const auto gradient = plan_of(attention_gradient_graph(shape, 0.125f).graph, device);
  REQUIRE(gradient);
  // 64 heads of 2048 rows of 128: 64 MiB of dq in fp32, 512 KiB of row sums; an A100 wants dq once
  // more.
  const std::int64_t dq = 4LL * 64 * 2048 * 128, rows = 4LL * 64 * 2048;
  const std::int64_t expected = dq + rows + (gpu.version == 800 ? dq : 0);
  CHECK(extra_bytes(shape, *gradient) >= expected);
  CHECK(extra_bytes(shape, *gradient) <= expected + 4096);
}

TEST_CASE("every form of attention that the back end asks for has plans on every generation") {
  const Gpu gpu = GENERATE(kA100, kH100, kB200);
  const PlanDevice device = described(gpu);
  for (const bool causal : {true, false}) {
    for (const cudnnDataType_t type : {CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF}) {
      for (const std::int64_t size : {64, 128}) {
        CAPTURE(gpu.name, causal, static_cast<int>(type), size);
        const AttentionShape shape{.batch = 2,
                                   .heads = 8,
                                   .sequence = 1024,
                                   .size = size,
                                   .value_size = size,
                                   .causal = causal,
                                   .type = type};
        CHECK(plan_of(attention_forward_graph(shape, 0.125f).graph, device));
        CHECK(plan_of(attention_gradient_graph(shape, 0.125f).graph, device));
      }
    }
  }
}

TEST_CASE("queries, keys and values that lie side by side have plans on every generation") {
  const Gpu gpu = GENERATE(kA100, kH100, kB200);
  CAPTURE(gpu.name);
  const PlanDevice device = described(gpu);
  AttentionShape shape{.batch = 2, .heads = 8, .sequence = 1024, .size = 64, .value_size = 64};
  // A token has 8 heads of queries, of keys and of values; results and gradients are by themselves.
  const std::int64_t token = 8 * 64;
  const HeadSteps joined{1024 * 3 * token, 3 * token, 64}, alone{1024 * token, token, 64};
  shape.steps = {joined, joined, joined, alone, {}, alone, alone, alone, alone};
  CHECK(plan_of(attention_forward_graph(shape, 0.125f).graph, device));
  CHECK(plan_of(attention_gradient_graph(shape, 0.125f).graph, device));
}

TEST_CASE("attention with narrower values has a plan") {
  const AttentionShape latent{.heads = 8, .sequence = 1024, .size = 192, .value_size = 128};
  CHECK(plan_of(attention_forward_graph(latent, 0.07f).graph, described(kH100)));
}

TEST_CASE("a head size that no kernel has gives no plan") {
  const AttentionShape odd{.heads = 8, .sequence = 1024, .size = 77, .value_size = 77};
  CHECK(!plan_of(attention_forward_graph(odd, 0.1f).graph, described(kH100)));
}

}  // namespace meshwright::cuda

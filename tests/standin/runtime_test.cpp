#include <cuda_runtime_api.h>

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/standin/launches.h"
#include "tests/standin/standin.h"

// What the stand-in for CUDA's runtime finds.
namespace meshwright::standin {
namespace {

struct Memory {
  explicit Memory(std::size_t count) { REQUIRE(cudaMalloc(&data, count * 4) == cudaSuccess); }
  ~Memory() { cudaFree(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  int* ints() const { return static_cast<int*>(data); }
  void* data = nullptr;
};

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  return stream;
}
cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  return event;
}

void launch_add(int* to, const int* from, int value, cudaStream_t stream) {
  launch_blocks("add", 1, 1, stream, [=] { *to = *from + value; });
}

// A number goes through two streams and back to the host, with waits between them or one fewer.
int passed_on(std::uint32_t seed, std::optional<std::int64_t> ignored) {
  restart({.devices = 1, .seed = seed, .ignored_wait = ignored});
  const Memory a(1), b(1);
  const cudaStream_t first = new_stream(), second = new_stream();
  const cudaEvent_t filled = new_event(), added = new_event();
  const int start = 3;
  int end = 0;
  REQUIRE(cudaMemsetAsync(b.data, 0, 4, first) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(a.data, &start, 4, cudaMemcpyHostToDevice, first) == cudaSuccess);
  REQUIRE(cudaEventRecord(filled, first) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(second, filled, 0) == cudaSuccess);
  launch_add(b.ints(), a.ints(), 4, second);
  REQUIRE(cudaEventRecord(added, second) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(first, added, 0) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(&end, b.data, 4, cudaMemcpyDeviceToHost, first) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(first) == cudaSuccess);
  REQUIRE(cudaGetLastError() == cudaSuccess);
  CHECK(faults().empty());
  return end;
}

}  // namespace

TEST_CASE("streams that wait for each other give one result, whatever the order") {
  for (std::uint32_t seed = 0; seed < 50; ++seed) CHECK(passed_on(seed, {}) == 7);
}

TEST_CASE("without one of the waits some order gives another result") {
  for (const std::int64_t wait : {1, 2}) {
    int wrong = 0;
    for (std::uint32_t seed = 0; seed < 50; ++seed) wrong += passed_on(seed, wait) != 7;
    CAPTURE(wait);
    CHECK(wrong > 5);
  }
}

TEST_CASE("a copy from memory that is not pinned may arrive after cudaMemcpy has returned") {
  int late = 0;
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    restart({.devices = 1, .seed = seed});
    const Memory a(1), b(1);
    const cudaStream_t stream = new_stream();
    const int value = 5;
    int end = 0;
    REQUIRE(cudaMemcpy(a.data, &value, 4, cudaMemcpyHostToDevice) == cudaSuccess);
    launch_add(b.ints(), a.ints(), 0, stream);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    REQUIRE(cudaMemcpy(&end, b.data, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
    late += end != value;
  }
  CHECK(late > 5);
}

TEST_CASE("memory is counted, and what is wrong with it is named") {
  restart({.devices = 2, .memory = 1000});
  void *small = nullptr, *large = nullptr;
  REQUIRE(cudaMalloc(&small, 600) == cudaSuccess);
  CHECK(cudaMalloc(&large, 600) == cudaErrorMemoryAllocation);
  CHECK(used_bytes(0) == 600);
  int word = 0;
  CHECK(cudaMemcpy(static_cast<char*>(small) + 598, &word, 4, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(has_fault("4 bytes reach beyond their allocation"));
  CHECK(cudaMemcpy(&word, small, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(has_fault("not of the kind that the call names"));
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaMemset(small, 0, 4) == cudaErrorInvalidValue);
  CHECK(has_fault("4 bytes of device 0, not of device 1"));
  REQUIRE(cudaFree(small) == cudaSuccess);
  CHECK(cudaMemset(small, 0, 4) == cudaErrorInvalidValue);
  CHECK(cudaFree(small) == cudaErrorInvalidValue);
  CHECK(used_bytes(0) == 0);
  CHECK(peak_bytes(0) == 600);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("streams and events of another device, never recorded, or destroyed are named") {
  restart({.devices = 2});
  const cudaStream_t stream = new_stream();
  const cudaEvent_t event = new_event();
  REQUIRE(cudaStreamWaitEvent(stream, event, 0) == cudaSuccess);
  CHECK(has_fault("the event was never recorded"));
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  const cudaStream_t other = new_stream();
  CHECK(cudaEventRecord(event, other) == cudaErrorInvalidResourceHandle);
  CHECK(has_fault("an event of device 0 in a stream of device 1"));
  launch_blocks("a kernel", 1, 1, stream, [] {});
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(has_fault("a stream of device 0 while device 1 is current"));
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  launch_blocks("a kernel", 1, 2000, stream, [] {});
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  REQUIRE(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaEventRecord(event, stream) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("a kernel that fails takes its device with it, and no other") {
  restart({.devices = 2, .failure = Failure{"kernel", 1}});
  const cudaStream_t stream = new_stream();
  launch_blocks("a kernel", 1, 1, stream, [] {});
  CHECK(cudaStreamSynchronize(stream) != cudaSuccess);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 4) == cudaErrorIllegalAddress);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  const Memory fine(1);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

}  // namespace meshwright::standin

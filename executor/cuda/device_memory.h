#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "executor/cuda/status.h"

// Owners of what CUDA's libraries hand out. All belong to the device that is current when they are
// made.
namespace meshwright::cuda {

// Made by a call that is given `place`.
template <class Handle, auto kDestroy>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (handle_) kDestroy(handle_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Handle get() const { return handle_; }

 protected:
  Handle* place() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};

class DeviceMemory : public Owned<void*, cudaFree> {
 public:
  explicit DeviceMemory(std::size_t bytes) { check(cudaMalloc(place(), bytes), "cudaMalloc"); }
  void* data() const { return get(); }
};

// Memory that only the kernels of one stream use between their launches. It grows before they run:
// a new piece waits for all that the device was given.
class GrowingMemory {
 public:
  std::byte* at_least(std::size_t bytes) {
    if (!memory_ || bytes > bytes_) {
      memory_.reset();
      memory_ = std::make_unique<DeviceMemory>(bytes);
      bytes_ = bytes;
    }
    return static_cast<std::byte*>(memory_->data());
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<DeviceMemory> memory_;
  std::size_t bytes_ = 0;
};

// To a device; it is there when this returns. cudaMemcpy alone promises only that memory which is
// not pinned has been read: streams that do not wait for the one without a name may still find what
// was there before.
inline void copy_to_device(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

// Of the host, in place where copies to and from a device find it.
class PinnedMemory : public Owned<void*, cudaFreeHost> {
 public:
  explicit PinnedMemory(std::size_t bytes) {
    check(cudaMallocHost(place(), bytes), "cudaMallocHost");
  }
  void* data() const { return get(); }
};

class Stream : public Owned<cudaStream_t, cudaStreamDestroy> {
 public:
  Stream() { check(cudaStreamCreateWithFlags(place(), cudaStreamNonBlocking), "cudaStreamCreate"); }
  void synchronize() const { check(cudaStreamSynchronize(get()), "cudaStreamSynchronize"); }
};

class Event : public Owned<cudaEvent_t, cudaEventDestroy> {
 public:
  Event() { check(cudaEventCreate(place()), "cudaEventCreate"); }
  void record(cudaStream_t stream) const {
    check(cudaEventRecord(get(), stream), "cudaEventRecord");
  }
  // In a stream that is captured: the graph records it whenever it runs.
  void record_in_graph(cudaStream_t stream) const {
    check(cudaEventRecordWithFlags(get(), stream, cudaEventRecordExternal), "cudaEventRecord");
  }
  // From `start` to this one, both reached.
  double seconds_since(const Event& start) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start.get(), get()), "cudaEventElapsedTime");
    return milliseconds * 1e-3;
  }
};

}  // namespace meshwright::cuda

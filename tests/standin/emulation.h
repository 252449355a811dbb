#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstring>
#include <functional>
#include <typeinfo>
#include <utility>

#include "tests/standin/emulator.h"
#include "tests/standin/launches.h"

// What NVIDIA's compiler knows and another one does not, for kernels that run on the processor. It
// is included before everything else in the sources of executor/cuda.

#define __launch_bounds__(...)
#undef __shared__
// Blocks run one after the other.
#define __shared__ static

#define threadIdx (::meshwright::standin::here().thread)
#define blockIdx (::meshwright::standin::here().block)
#define blockDim (::meshwright::standin::here().threads)
#define gridDim (::meshwright::standin::here().blocks)

inline void __syncthreads() { meshwright::standin::wait_for_block(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { meshwright::standin::wait_for_warp(mask); }

namespace meshwright::standin {

template <class Value>
Value of_lane(unsigned mask, Value value, unsigned lane) {
  static_assert(sizeof(Value) <= 16);
  const void* const brought = exchange(mask, &value, sizeof(Value), lane);
  std::memcpy(static_cast<void*>(&value), brought, sizeof(Value));
  return value;
}
inline unsigned lane() { return here().thread.x % kLanes; }

}  // namespace meshwright::standin

template <class Value>
Value __shfl_sync(unsigned mask, Value value, int from) {
  return meshwright::standin::of_lane(mask, value,
                                      static_cast<unsigned>(from) % meshwright::standin::kLanes);
}
template <class Value>
Value __shfl_xor_sync(unsigned mask, Value value, int bits) {
  return meshwright::standin::of_lane(mask, value,
                                      meshwright::standin::lane() ^ static_cast<unsigned>(bits));
}
template <class Value>
Value __shfl_down_sync(unsigned mask, Value value, unsigned step) {
  const unsigned from = meshwright::standin::lane() + step;
  return meshwright::standin::of_lane(
      mask, value, from < meshwright::standin::kLanes ? from : meshwright::standin::lane());
}

// Threads run one after the other, so any addition is one step.
template <class Value>
Value atomicAdd(Value* to, Value value) {
  const Value before = *to;
  *to = static_cast<Value>(before + value);
  return before;
}
template <class Value>
Value __ldg(const Value* from) {
  return *from;
}

namespace meshwright::cuda {

template <auto kernel>
struct Emulated;

// All kernels that anybody launches are known when the library is loaded.
template <class... Parameters, void (*kernel)(Parameters...)>
struct Emulated<kernel> {
  // A thread of the kernel, with what it was launched with.
  static std::function<void()> thread(Parameters... parameters) {
    return [=] { kernel(parameters...); };
  }
  template <std::size_t... i>
  static std::function<void()> thread_at(void** places, std::index_sequence<i...>) {
    return thread(*static_cast<Parameters*>(places[i])...);
  }
  static inline const standin::EmulatedKernel entry{
      typeid(Emulated).name(),
      [](void** places) { return thread_at(places, std::index_sequence_for<Parameters...>()); }};
};

template <auto kernel, class... Arguments>
void emulate(unsigned blocks, unsigned threads, cudaStream_t stream,
             const Arguments&... arguments) {
  standin::launch_blocks(Emulated<kernel>::entry.name(), blocks, threads, stream,
                         Emulated<kernel>::thread(arguments...));
}

}  // namespace meshwright::cuda

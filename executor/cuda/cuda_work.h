#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/precision.h"
#include "executor/cuda/device_memory.h"
#include "executor/kernel_call.h"
#include "executor/step_numbers.h"

namespace meshwright::cuda {

// A stream in which our own kernels are launched, with memory that only they
// need: of the device that is current when it is made.
class WorkPlace {
 public:
  static constexpr std::size_t kStateBytes = 64, kStates = 264;

  explicit WorkPlace(cudaStream_t stream)
      : stream_(stream), states_(kStateBytes * kStates), numbers_(sizeof(StepNumbers)) {}

  cudaStream_t stream() const { return stream_; }
  // Of what is reduced.
  void* states() const { return states_.data(); }
  // In the stream: what was launched before reads what was there.
  const StepNumbers* numbers(const StepSettings& settings) {
    if (settings_ != settings) {
      const StepNumbers next = step_numbers(settings);
      check(cudaMemcpyAsync(numbers_.data(), &next, sizeof(next), cudaMemcpyHostToDevice, stream_),
            "cudaMemcpyAsync");
      settings_ = settings;
    }
    return numbers();
  }
  // Where they are, or will be.
  const StepNumbers* numbers() const { return static_cast<const StepNumbers*>(numbers_.data()); }
  // Memory for what one kernel needs between its launches.
  std::byte* scratch(std::size_t bytes) { return scratch_.at_least(bytes); }
  // Numbers that were kept by this key; null: none were.
  const void* kept(const std::string& key) const {
    const auto known = kept_.find(key);
    return known == kept_.end() ? nullptr : known->second.data();
  }
  const void* keep(const std::string& key, const void* numbers, std::size_t bytes) {
    const DeviceMemory& memory = kept_.try_emplace(key, bytes).first->second;
    copy_to_device(memory.data(), numbers, bytes);
    kept_bytes_ += bytes;
    return memory.data();
  }
  // All that it has taken.
  std::size_t bytes() const {
    return kStateBytes * kStates + sizeof(StepNumbers) + kept_bytes_ + scratch_.bytes();
  }

 private:
  cudaStream_t stream_;
  DeviceMemory states_, numbers_;
  std::optional<StepSettings> settings_;  // that the numbers are of
  std::map<std::string, DeviceMemory> kept_;
  std::size_t kept_bytes_ = 0;
  GrowingMemory scratch_;
};

// Whether there is work for a kernel; the call's buffers are not looked at.
bool has_work(const KernelCall& call, Precision precision);
// Makes what launches of it will need beside the call's buffers.
void prepare_work(const KernelCall& call, Precision precision, WorkPlace& place);
// The call's buffers are device memory. False: there is no such kernel.
bool launch_work(const KernelCall& call, Precision precision, WorkPlace& place);
// Of a product: the gradient of its bias, and its bias.
void launch_bias_gradient(const KernelCall& call, Precision precision, WorkPlace& place);
void launch_bias(const KernelCall& call, Precision precision, WorkPlace& place);

// Elements of `width` bytes from one operand to another of the same sizes.
struct PlacedOperand {
  const Operand& operand;
  std::byte* buffer = nullptr;
};
void launch_copy(const PlacedOperand& from, const PlacedOperand& to, std::size_t width,
                 cudaStream_t stream);

// Fill device memory with ordinary numbers, or with indices below a limit.
void fill_reals(void* to, std::int64_t count, Precision precision, WorkPlace& place);
void fill_indices(void* to, std::int64_t count, std::int64_t limit, WorkPlace& place);

}  // namespace meshwright::cuda

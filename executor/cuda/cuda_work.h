#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "costmodel/base/precision.h"
#include "executor/kernel_call.h"

namespace meshwright::cuda {

// What is launched one after the other in a stream to run a kernel once, with the memory that only
// it needs.
struct WorkList {
  std::vector<std::function<void(cudaStream_t)>> launches;
  std::vector<std::shared_ptr<void>> memory;
};

// The call's buffers are device memory. None: there is no such kernel.
std::optional<WorkList> work_of(const KernelCall& call, Precision precision);

// Fill device memory with ordinary numbers, or with indices below a limit.
void fill_reals(void* to, std::int64_t count, Precision precision, cudaStream_t stream);
void fill_indices(void* to, std::int64_t count, std::int64_t limit, cudaStream_t stream);

// The same for the storage types that two files compile side by side.
std::optional<WorkList> work_of_32_or_64_bits(const KernelCall& call, Precision precision);
std::optional<WorkList> work_of_16_bits(const KernelCall& call, Precision precision);
void fill_32_or_64_bits(void* to, std::int64_t count, Precision precision, cudaStream_t stream);
void fill_8_or_16_bits(void* to, std::int64_t count, Precision precision, cudaStream_t stream);

}  // namespace meshwright::cuda

#pragma once

#include <memory>
#include <vector>

#include "executor/cuda/cuda_work.h"
#include "executor/cuda/device_memory.h"
#include "executor/cuda/product.h"

namespace meshwright::cuda {

// A kernel of executor/cuda/kernel_work.h with its memory, filled with ordinary numbers.
class WorkBench {
 public:
  WorkBench(const Kernel& kernel, Precision precision, cudaStream_t stream);
  // False: there is no such kernel.
  bool exists() const { return work_.has_value(); }
  void launch(cudaStream_t stream) const {
    for (const auto& launch : work_->launches) launch(stream);
  }

 private:
  Kernel kernel_;
  StepSettings settings_{.step = 3};
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::vector<std::byte*> buffers_;
  std::optional<WorkList> work_;
};

// How long so many launches in a row take on the device, whose stream it is.
template <class Launch>
double seconds_of(const Stream& stream, std::int64_t count, Launch launch) {
  const Event start, stop;
  start.record(stream.get());
  for (std::int64_t i = 0; i < count; ++i) launch(stream.get());
  stop.record(stream.get());
  stream.synchronize();
  return stop.seconds_since(start);
}

}  // namespace meshwright::cuda

#pragma once

#include <memory>
#include <vector>

#include "executor/cuda/cuda_kernels.h"

namespace meshwright::cuda {

// A kernel with memory for its operands, filled with ordinary numbers. In 16 bits statistics are
// fp32, as training has them.
class KernelBench {
 public:
  KernelBench(const Kernel& kernel, Precision precision, std::shared_ptr<CudaKernels> kernels);
  // False: there is no such kernel.
  bool launch();

 private:
  Kernel kernel_;
  Precision precision_;
  StepSettings settings_{.step = 3};
  std::shared_ptr<CudaKernels> kernels_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::vector<std::byte*> buffers_;
  std::vector<std::int64_t> counts_;
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

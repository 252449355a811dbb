#include "executor/cuda/cuda_kernels.h"
#include "executor/cuda/cuda_library.h"
#include "executor/environment_error.h"

namespace meshwright::cuda {
namespace {

// The operands of a call in device memory, which go there and come back.
class DeviceOperands {
 public:
  DeviceOperands(const CudaCall& call, const std::vector<void*>& places)
      : call_(call), places_(places) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      copy_to_device(places_[i], call_.buffers[i], call_.bytes[i]);
    }
  }
  void bring_back() const {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (std::size_t i = 0; i < places_.size(); ++i) {
      check(cudaMemcpy(call_.buffers[i], places_[i], call_.bytes[i], cudaMemcpyDeviceToHost),
            "cudaMemcpy");
    }
  }

 private:
  const CudaCall& call_;
  std::vector<void*> places_;
};

bool run(const CudaCall& call, const Stream& stream) {
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<void*> places;
  std::vector<std::byte*> buffers;
  for (const std::size_t bytes : call.bytes) {
    memory.push_back(std::make_unique<DeviceMemory>(bytes));
    places.push_back(memory.back()->data());
    buffers.push_back(static_cast<std::byte*>(places.back()));
  }
  const DeviceOperands operands(call, places);
  CudaKernels kernels(stream.get());
  const KernelCall on_device{call.kernel, buffers, call.settings, 0, call.counts};
  if (!kernels.launch(on_device, call.precision)) return false;
  operands.bring_back();
  return true;
}

}  // namespace
}  // namespace meshwright::cuda

extern "C" bool meshwright_cuda_run(const meshwright::CudaCall& call) {
  using namespace meshwright::cuda;
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  if (driver == 0) throw meshwright::EnvironmentError("CUDA: this machine has no NVIDIA driver");
  check(cudaSetDevice(0), "cudaSetDevice");
  const Stream stream;
  return run(call, stream);
}

#include "executor/cuda/cuda_library.h"
#include "executor/cuda/cuda_work.h"
#include "executor/cuda/product.h"
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

bool run_product(const CudaCall& call, const Stream& stream) {
  const BlasHandle blas;
  const auto product = make_product(call.kernel, call.precision, blas, stream.get());
  if (!product) return false;
  stream.synchronize();
  const DeviceOperands operands(call, {product->memory(0), product->memory(1), product->memory(2)});
  product->launch(stream.get());
  operands.bring_back();
  return true;
}

bool run_work(const CudaCall& call, const Stream& stream) {
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<void*> places;
  std::vector<std::byte*> buffers;
  for (const std::size_t bytes : call.bytes) {
    memory.push_back(std::make_unique<DeviceMemory>(bytes));
    places.push_back(memory.back()->data());
    buffers.push_back(static_cast<std::byte*>(places.back()));
  }
  const DeviceOperands operands(call, places);
  const auto work = work_of({call.kernel, buffers, call.settings, 0}, call.precision);
  if (!work) return false;
  for (const auto& launch : work->launches) launch(stream.get());
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
  return call.kernel.kind == meshwright::KernelKind::Matmul ? run_product(call, stream)
                                                            : run_work(call, stream);
}

#include "executor/cuda/cuda_kernels.h"

#include <vector>

namespace meshwright::cuda {
namespace {

bool is_multiplied(KernelKind kind) {
  return kind == KernelKind::Matmul || kind == KernelKind::ExpertMatmul;
}

}  // namespace

CudaKernels::CudaKernels(cudaStream_t stream)
    : place_(stream), products_(place_), attention_(attention_library(stream)) {}

bool CudaKernels::launch(const KernelCall& call, Precision precision) {
  if (is_multiplied(call.kernel.kind)) return products_.launch(call, precision);
  if (call.kernel.kind == KernelKind::Attention && attention_->launch(call, precision)) return true;
  return launch_work(call, precision, place_);
}

bool has_kernel(const Kernel& kernel, Precision precision) {
  if (kernel.kind == KernelKind::Load) return true;  // is written by the host
  if (is_multiplied(kernel.kind)) return is_product(kernel);
  const std::vector<std::byte*> nowhere(kernel.operands.size());
  const StepSettings settings;
  return has_work({kernel, nowhere, settings}, precision);
}

}  // namespace meshwright::cuda

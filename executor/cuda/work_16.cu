#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "executor/cuda/cuda_machine.cuh"

namespace meshwright::cuda {

std::optional<WorkList> work_of_16_bits(const KernelCall& call, Precision precision) {
  if (precision == Precision::BF16) return recorded_work<__nv_bfloat16>(call);
  if (precision == Precision::FP16) return recorded_work<__half>(call);
  return {};
}

void fill_8_or_16_bits(void* to, std::int64_t count, Precision precision, cudaStream_t stream) {
  if (precision == Precision::BF16) return fill<__nv_bfloat16>(to, count, stream);
  if (precision == Precision::FP16) return fill<__half>(to, count, stream);
  fill<__nv_fp8_e4m3>(to, count, stream);
}

}  // namespace meshwright::cuda

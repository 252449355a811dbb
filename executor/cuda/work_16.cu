#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "executor/cuda/cuda_machine.cuh"

namespace meshwright::cuda {

std::optional<StoredWork> work_in_16_bits(Precision precision) {
  if (precision == Precision::BF16) return stored_work<__nv_bfloat16>();
  if (precision == Precision::FP16) return stored_work<__half>();
  return {};
}

void fill_8_or_16_bits(void* to, std::int64_t count, Precision precision, WorkPlace& place) {
  if (precision == Precision::BF16) return fill<__nv_bfloat16>(to, count, place);
  if (precision == Precision::FP16) return fill<__half>(to, count, place);
  fill<__nv_fp8_e4m3>(to, count, place);
}

}  // namespace meshwright::cuda

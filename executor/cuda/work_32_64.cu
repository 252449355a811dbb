#include "executor/cuda/cuda_machine.cuh"

namespace meshwright::cuda {

std::optional<WorkList> work_of_32_or_64_bits(const KernelCall& call, Precision precision) {
  if (precision == Precision::FP64) return recorded_work<double>(call);
  if (precision == Precision::FP32) return recorded_work<float>(call);
  return {};
}

void fill_32_or_64_bits(void* to, std::int64_t count, Precision precision, cudaStream_t stream) {
  precision == Precision::FP64 ? fill<double>(to, count, stream) : fill<float>(to, count, stream);
}

void fill_indices(void* to, std::int64_t count, std::int64_t limit, cudaStream_t stream) {
  run_now(count, work::FillIndices{static_cast<std::int32_t*>(to), limit}, stream);
}

}  // namespace meshwright::cuda

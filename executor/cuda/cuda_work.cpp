#include "executor/cuda/cuda_work.h"

#include "executor/cuda/stored_work.h"

namespace meshwright::cuda {
namespace {

std::optional<StoredWork> work_in(Precision precision) {
  const auto work = work_in_32_or_64_bits(precision);
  return work ? work : work_in_16_bits(precision);
}

}  // namespace

bool has_work(const KernelCall& call, Precision precision) {
  const auto work = work_in(precision);
  return work && work->has(call);
}

void prepare_work(const KernelCall& call, Precision precision, WorkPlace& place) {
  if (const auto work = work_in(precision)) work->prepare(call, place);
}

bool launch_work(const KernelCall& call, Precision precision, WorkPlace& place) {
  const auto work = work_in(precision);
  return work && work->launch(call, place);
}

void launch_bias_gradient(const KernelCall& call, Precision precision, WorkPlace& place) {
  work_in(precision).value().bias_gradient(call, place);
}

void launch_bias(const KernelCall& call, Precision precision, WorkPlace& place) {
  work_in(precision).value().bias(call, place);
}

void fill_reals(void* to, std::int64_t count, Precision precision, WorkPlace& place) {
  const bool wide =
      precision == Precision::FP64 || precision == Precision::FP32 || precision == Precision::TF32;
  wide ? fill_32_or_64_bits(to, count, precision, place)
       : fill_8_or_16_bits(to, count, precision, place);
}

}  // namespace meshwright::cuda

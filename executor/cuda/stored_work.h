#pragma once

#include <optional>

#include "executor/cuda/cuda_work.h"

namespace meshwright::cuda {

// Our own kernels for one storage type.
struct StoredWork {
  bool (*has)(const KernelCall&);
  void (*prepare)(const KernelCall&, WorkPlace&);
  bool (*launch)(const KernelCall&, WorkPlace&);
  void (*bias_gradient)(const KernelCall&, WorkPlace&);
  void (*bias)(const KernelCall&, WorkPlace&);
};

// Two files compile them side by side. None: not of these precisions.
std::optional<StoredWork> work_in_32_or_64_bits(Precision precision);
std::optional<StoredWork> work_in_16_bits(Precision precision);

void fill_32_or_64_bits(void* to, std::int64_t count, Precision precision, WorkPlace& place);
void fill_8_or_16_bits(void* to, std::int64_t count, Precision precision, WorkPlace& place);

}  // namespace meshwright::cuda

#pragma once

#include "executor/cpu/kernels.h"
#include "executor/cuda/cuda_library.h"
#include "tests/executor/small_kernels.h"

namespace meshwright {

// The largest difference between what the CUDA library computes and what the processor does.
// None: the library has no such kernel.
template <class Real>
std::optional<double> device_difference(CudaRunFunction run, const Kernel& kernel,
                                        Precision precision) {
  const StepSettings settings{.seed = 7, .step = 2, .label_share = 0.25, .clip = 0.5};
  KernelMemory<Real> expected(kernel), found(kernel);
  run_kernel({kernel, expected.buffers, settings, 0}, precision);
  CudaCall call{kernel, precision, settings, found.buffers, {}};
  for (const Operand& operand : kernel.operands) {
    const Bytes width = bytes_per_element(operand.element, precision);
    call.bytes.push_back(static_cast<std::size_t>(width.value() * extent_of(operand)));
  }
  if (!run(call)) return {};
  return largest_difference(kernel, expected, found);
}

}  // namespace meshwright

#pragma once

#include <cuda_runtime_api.h>

#include "executor/cuda/status.h"

namespace meshwright::cuda {

// The one place where kernels are launched. Another compiler than NVIDIA's has a header of its own
// before this one, with an `emulate` that runs every thread on the processor: tests do.
template <auto kernel, class... Arguments>
void launch(unsigned blocks, unsigned threads, cudaStream_t stream, const Arguments&... arguments) {
#ifdef __CUDACC__
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
#else
  emulate<kernel>(blocks, threads, stream, arguments...);
#endif
  check(cudaGetLastError(), "a kernel's launch");
}

}  // namespace meshwright::cuda

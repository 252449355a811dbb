#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace meshwright::standin {

// A kernel in a stream, of which every thread calls `thread`. What is wrong with it is
// cudaGetLastError's to say.
void launch_blocks(const char* name, unsigned blocks, unsigned threads, cudaStream_t stream,
                   std::function<void()> thread);

}  // namespace meshwright::standin

#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "executor/kernel_call.h"

namespace meshwright::cuda {

// The attention of one device and stream by cuDNN, where the library is built with it: in bf16 or
// fp16, of whole sequences, with as many heads of keys as of queries, without dropout, window or
// bias.
class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;
  // False: not of the kind above, or cuDNN has none on this device.
  virtual bool has(const KernelCall& call, Precision precision) = 0;
  // Takes the memory that its launches need beside the call's buffers, where it has it.
  virtual bool prepare(const KernelCall& call, Precision precision) = 0;
  // The call's buffers are device memory. False: it has none such.
  virtual bool launch(const KernelCall& call, Precision precision) = 0;
  // All that it has taken.
  virtual std::size_t bytes() const = 0;
  // Its name and version, for the profile; empty: there is none.
  virtual std::string name() const = 0;
};

// Of the device that is current.
std::unique_ptr<AttentionLibrary> attention_library(cudaStream_t stream);

}  // namespace meshwright::cuda

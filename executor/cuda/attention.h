#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "costmodel/kernel/kernel.h"

namespace meshwright::cuda {

// Attention with its memory.
class Attention {
 public:
  virtual ~Attention() = default;
  virtual void launch(cudaStream_t stream) = 0;
};

// The attention of one device, by cuDNN where the library is built with it.
class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;
  // None: not attention in bf16 or fp16 of whole sequences without dropout, or cuDNN has none of
  // its kind on this device.
  virtual std::unique_ptr<Attention> make(const Kernel& kernel, Precision precision,
                                          cudaStream_t stream) = 0;
  // Its name and version, for the profile; empty: there is none.
  virtual std::string name() const = 0;
};

// Of the device that is current.
std::unique_ptr<AttentionLibrary> attention_library();

}  // namespace meshwright::cuda

#pragma once

#include <memory>

#include "executor/cuda/attention.h"
#include "executor/cuda/cuda_work.h"
#include "executor/cuda/product.h"

namespace meshwright::cuda {

// Every kernel that GPUs have, in one stream of the device that is current when it is made:
// products by cuBLASLt, attention by cuDNN where it has it, all else by the work of kernel_work.h.
class CudaKernels {
 public:
  explicit CudaKernels(cudaStream_t stream);

  // The call's buffers are device memory. False: there is no such kernel, and nothing was launched.
  bool launch(const KernelCall& call, Precision precision);
  // Makes what launches of it will need beside the call's buffers.
  void prepare(const KernelCall& call, Precision precision);
  // All memory that it has taken.
  std::size_t bytes() const;
  WorkPlace& place() { return place_; }
  // The library for attention, empty if there is none.
  std::string attention_name() const { return attention_->name(); }

 private:
  bool prepare_attention(const KernelCall& call, Precision precision);
  bool launch_attention(const KernelCall& call, Precision precision);

  WorkPlace place_;
  Products products_;
  std::unique_ptr<AttentionLibrary> attention_;
};

// Whether there is a kernel of this form at all; a library may still have none on some device.
bool has_kernel(const Kernel& kernel, Precision precision);

}  // namespace meshwright::cuda

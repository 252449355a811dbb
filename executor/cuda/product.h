#pragma once

#include <cublasLt.h>

#include <memory>
#include <optional>

#include "costmodel/kernel/kernel.h"
#include "executor/cuda/device_memory.h"

namespace meshwright::cuda {

// cuBLASLt on the device that is current when it is made.
class BlasHandle : public Owned<cublasLtHandle_t, cublasLtDestroy> {
 public:
  BlasHandle() { check(cublasLtCreate(place()), "cublasLtCreate"); }
};

// A matrix product with its memory, by the algorithm that cuBLASLt's heuristics put first. 16-bit
// and 8-bit products add up in fp32; 8-bit ones (E4M3) have a bf16 result.
class Product {
 public:
  virtual ~Product() = default;
  virtual void launch(cudaStream_t stream) = 0;
  // Of an operand of the kernel.
  virtual void* memory(std::size_t operand) const = 0;
};

// None: not a product, or cuBLASLt has none of this kind on this device.
std::unique_ptr<Product> make_product(const Kernel& kernel, Precision precision,
                                      const BlasHandle& blas, cudaStream_t stream);

}  // namespace meshwright::cuda

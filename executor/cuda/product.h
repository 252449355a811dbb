#pragma once

#include <cublasLt.h>

#include <map>
#include <memory>
#include <tuple>

#include "costmodel/kernel/kernel.h"
#include "executor/cuda/cuda_work.h"
#include "executor/cuda/device_memory.h"
#include "executor/cuda/product_layout.h"

namespace meshwright::cuda {

// cuBLASLt on the device that is current when it is made.
class BlasHandle : public Owned<cublasLtHandle_t, cublasLtDestroy> {
 public:
  BlasHandle() { check(cublasLtCreate(place()), "cublasLtCreate"); }
};

class LtProduct;  // a product that cuBLASLt has an algorithm for

// Matrix products by the algorithms that cuBLASLt's heuristics put first, in
// one stream. 16-bit and 8-bit products add up in fp32; 8-bit ones (E4M3) have
// a bf16 result. The bias of a forward is the epilogue's, where cuBLASLt has
// one for such a product.
class Products {
 public:
  explicit Products(WorkPlace& place);
  ~Products();

  // The call's buffers are device memory. False: not a product, or cuBLASLt has
  // none of this kind on this device.
  bool launch(const KernelCall& call, Precision precision);
  // Chooses the algorithms of its launches.
  void prepare(const KernelCall& call, Precision precision);
  static constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

 private:
  // One product of matrices: of a whole kernel, or of one expert.
  struct Factors {
    ProductLayout layout;
    const void *first = nullptr, *second = nullptr;
    void* result = nullptr;
    std::optional<BlasMatrix> addend_layout;
    const void *addend = nullptr, *bias = nullptr;
    bool accumulate = false, fast = false;
    BufferElement element = BufferElement::Real;  // of the result
  };
  bool launch_matmul(const KernelCall& call, Precision precision);
  bool launch_experts(const KernelCall& call, Precision precision);
  bool multiply(const Factors& factors, Precision precision);
  void fill_zero(const Factors& factors, Precision precision);
  LtProduct* product_for(const Factors& factors, Precision precision);

  WorkPlace& place_;
  BlasHandle blas_;
  DeviceMemory workspace_;
  bool prepares_ = false;                                    // and launches nothing
  std::map<std::string, std::unique_ptr<LtProduct>> known_;  // none: cuBLASLt has no such product
};

// Whether the layout of a product is one that cuBLASLt may have.
bool is_product(const Kernel& kernel);

}  // namespace meshwright::cuda

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "executor/kernel_call.h"

namespace meshwright {

// Whether numbers of this precision are widened before anything is computed with them.
bool is_widened(Precision precision);

// What a kernel's 16-bit operands take as fp32, with `rows` rows where they are counted.
Bytes widened_bytes(const Kernel& kernel, std::int64_t rows);

// A call of a kernel on fp32 copies of its 16-bit operands, without gaps. Everything inside a
// kernel is thus fp32, and its results are rounded once: when they are stored.
class WidenedCall {
 public:
  WidenedCall(const KernelCall& call, Precision precision);

  KernelCall call() const { return {kernel_, buffers_, call_.settings, call_.batch_row}; }
  // Rounds what the kernel has written.
  void store() const;

 private:
  const KernelCall& call_;
  Precision precision_;
  Kernel kernel_;
  std::vector<std::unique_ptr<float[]>> copies_;  // by operand, null: it is no 16-bit one
  std::vector<std::byte*> buffers_;
};

}  // namespace meshwright

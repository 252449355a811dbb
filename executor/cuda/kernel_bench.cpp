#include "executor/cuda/kernel_bench.h"

#include <algorithm>

#include "executor/kernel_statistics.h"

namespace meshwright::cuda {
namespace {

std::size_t width_of(BufferElement element, Precision precision) {
  // The result of an 8-bit product has 16.
  if (precision == Precision::FP8 && element == BufferElement::Real) return 2;
  return static_cast<std::size_t>(bytes_per_element(element, precision).value());
}

std::int64_t extent_of(const Operand& operand) {
  std::int64_t last = operand.offset;
  for (std::size_t i = 0; i < operand.sizes.size(); ++i) {
    last += (operand.sizes[i] - 1) * operand.strides[i];
  }
  return last + 1;
}

// Rows of a table that indices look up; two labels otherwise.
std::int64_t index_limit(const Kernel& kernel) {
  if (kernel.kind != KernelKind::Embedding) return 2;
  return kernel.operands[kernel.phase == Phase::Forward ? 1 : 2].sizes[0];
}

void fill(const Kernel& kernel, const Operand& operand, Precision precision, void* memory,
          WorkPlace& place) {
  const std::int64_t count = extent_of(operand);
  switch (operand.element) {
    case BufferElement::Index:
      return fill_indices(memory, count, index_limit(kernel), place);
    case BufferElement::Double:
      return fill_reals(memory, count, Precision::FP64, place);
    case BufferElement::Single:
      return fill_reals(memory, count, Precision::FP32, place);
    case BufferElement::Real:
      return fill_reals(memory, count, precision, place);
    case BufferElement::Byte:
      return;
  }
}

}  // namespace

KernelBench::KernelBench(const Kernel& kernel, Precision precision,
                         std::shared_ptr<CudaKernels> kernels)
    : kernel_(kernel), precision_(precision), kernels_(std::move(kernels)) {
  if (precision == Precision::BF16 || precision == Precision::FP16) {
    for (const std::size_t i : statistics_of(kernel_)) {
      kernel_.operands[i].element = BufferElement::Single;
    }
  }
  for (const Operand& operand : kernel_.operands) {
    const auto elements = static_cast<std::size_t>(std::max<std::int64_t>(extent_of(operand), 1));
    memory_.push_back(
        std::make_unique<DeviceMemory>(elements * width_of(operand.element, precision)));
    fill(kernel_, operand, precision, memory_.back()->data(), kernels_->place());
    buffers_.push_back(static_cast<std::byte*>(memory_.back()->data()));
  }
  if (kernel_.kind == KernelKind::ExpertMatmul) {
    // Rows in equal numbers, as far as that goes.
    const std::size_t weight = kernel_.phase == Phase::InputGradient ? 0 : 1;
    const bool gradient = kernel_.phase == Phase::WeightGradient;
    const std::int64_t experts = kernel_.operands[gradient ? 3 : weight].sizes[0];
    const std::int64_t rows = kernel_.operands[kernel_.phase == Phase::Forward ? 0 : 1].sizes[0];
    for (std::int64_t e = 0; e < experts; ++e) {
      counts_.push_back(rows * (e + 1) / experts - rows * e / experts);
    }
  }
}

bool KernelBench::launch() {
  return kernels_->launch({kernel_, buffers_, settings_, 0, counts_}, precision_);
}

}  // namespace meshwright::cuda

#include "executor/cuda/kernel_bench.h"

namespace meshwright::cuda {
namespace {

std::size_t bytes_of(Precision precision) {
  switch (precision) {
    case Precision::FP64:
      return 8;
    case Precision::FP32:
    case Precision::TF32:
      return 4;
    case Precision::FP16:
    case Precision::BF16:
      return 2;
    case Precision::FP8:
      break;
  }
  return 1;
}

std::size_t bytes_of(BufferElement element, Precision precision) {
  switch (element) {
    case BufferElement::Real:
      return bytes_of(precision);
    case BufferElement::Index:
    case BufferElement::Single:
      return 4;
    case BufferElement::Double:
      return 8;
    case BufferElement::Byte:
      break;
  }
  return 1;
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
  return kernel.operands[kernel.part == KernelPart::Forward ? 1 : 2].sizes[0];
}

void fill(const Kernel& kernel, const Operand& operand, Precision precision, void* memory,
          cudaStream_t stream) {
  const std::int64_t count = extent_of(operand);
  switch (operand.element) {
    case BufferElement::Index:
      return fill_indices(memory, count, index_limit(kernel), stream);
    case BufferElement::Double:
      return fill_reals(memory, count, Precision::FP64, stream);
    case BufferElement::Single:
      return fill_reals(memory, count, Precision::FP32, stream);
    case BufferElement::Real:
      return fill_reals(memory, count, precision, stream);
    case BufferElement::Byte:
      return;
  }
}

}  // namespace

std::optional<WorkList> work_of(const KernelCall& call, Precision precision) {
  switch (precision) {
    case Precision::FP64:
    case Precision::FP32:
      return work_of_32_or_64_bits(call, precision);
    case Precision::FP16:
    case Precision::BF16:
      return work_of_16_bits(call, precision);
    case Precision::TF32:
    case Precision::FP8:
      break;
  }
  return {};
}

void fill_reals(void* to, std::int64_t count, Precision precision, cudaStream_t stream) {
  bytes_of(precision) >= 4 ? fill_32_or_64_bits(to, count, precision, stream)
                           : fill_8_or_16_bits(to, count, precision, stream);
}

WorkBench::WorkBench(const Kernel& kernel, Precision precision, cudaStream_t stream)
    : kernel_(kernel) {
  for (const Operand& operand : kernel_.operands) {
    const auto elements = static_cast<std::size_t>(extent_of(operand));
    memory_.push_back(
        std::make_unique<DeviceMemory>(elements * bytes_of(operand.element, precision)));
    fill(kernel_, operand, precision, memory_.back()->data(), stream);
    buffers_.push_back(static_cast<std::byte*>(memory_.back()->data()));
  }
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  work_ = work_of({kernel_, buffers_, settings_, 0}, precision);
}

}  // namespace meshwright::cuda

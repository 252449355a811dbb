#include "executor/cuda/cuda_kernels.h"

#include <vector>

namespace meshwright::cuda {
namespace {

bool is_multiplied(KernelKind kind) {
  return kind == KernelKind::Matmul || kind == KernelKind::ExpertMatmul;
}

// Attention whose heads of queries share heads of keys and values, with a head of keys and values
// of its own for each: what cuDNN is asked for. Keys and values are repeated before, and their
// gradients added up after it.
class RepeatedHeads {
 public:
  RepeatedHeads(const KernelCall& call, WorkPlace& place)
      : call_(call),
        place_(place),
        kernel_(call.kernel),
        buffers_(call.buffers.begin(), call.buffers.end()) {
    for (const std::size_t i : repeated()) {
      Extents sizes = call.operand(i).sizes;
      sizes[2] = call.operand(0).sizes[2];
      kernel_.operands[i] = dense_operand(sizes, call.operand(i).element);
      starts_.push_back(bytes_);
      bytes_ +=
          static_cast<std::size_t>(element_count(kernel_.operands[i]) * kWidth + 255) / 256 * 256;
    }
    std::byte* const memory = place.scratch(bytes_);
    for (std::size_t n = 0; n < starts_.size(); ++n) buffers_[repeated()[n]] = memory + starts_[n];
  }

  KernelCall call() const { return {kernel_, buffers_, call_.settings, call_.batch_row}; }

  void repeat() const {
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      launch_copy({shared(i), call_.buffers[i]}, {own(i), buffers_[i]}, kWidth, place_.stream());
    }
  }
  void add_up(Precision precision) const {
    for (std::size_t i = 7; i < call_.operand_count(); ++i) {
      Operand sum = shared(i);
      sum.written = true;
      const Kernel adds{
          .kind = KernelKind::Sum, .phase = Phase::InputGradient, .operands = {own(i), sum}};
      const std::vector<std::byte*> buffers = {buffers_[i], call_.buffers[i]};
      launch_work({adds, buffers, call_.settings}, precision, place_);
    }
  }

 private:
  static constexpr std::int64_t kWidth = 2;  // bytes: cuDNN is asked in 16 bits

  std::vector<std::size_t> repeated() const {
    return call_.kernel.phase == Phase::Forward ? std::vector<std::size_t>{1, 2}
                                                : std::vector<std::size_t>{1, 2, 7, 8};
  }
  // [batch, sequence, heads, heads of queries for each, size]: of what is shared, and of what each
  // has for itself.
  Operand shared(std::size_t i) const {
    const Operand& o = call_.operand(i);
    const std::int64_t group = call_.operand(0).sizes[2] / o.sizes[2];
    Operand operand = o;
    operand.sizes = {o.sizes[0], o.sizes[1], o.sizes[2], group, o.sizes[3]};
    operand.strides = {o.strides[0], o.strides[1], o.strides[2], 0, o.strides[3]};
    return operand;
  }
  Operand own(std::size_t i) const {
    return dense_operand(shared(i).sizes, call_.operand(i).element);
  }

  const KernelCall& call_;
  WorkPlace& place_;
  Kernel kernel_;
  std::vector<std::byte*> buffers_;
  std::vector<std::size_t> starts_;
  std::size_t bytes_ = 0;
};

bool may_repeat_heads(const Kernel& kernel, Precision precision) {
  if (precision != Precision::BF16 && precision != Precision::FP16) return false;
  const auto heads = [&](std::size_t i) { return kernel.operands[i].sizes[2]; };
  return heads(1) == heads(2) && heads(1) < heads(0) && !kernel.accumulate;
}

}  // namespace

CudaKernels::CudaKernels(cudaStream_t stream)
    : place_(stream), products_(place_), attention_(attention_library(stream)) {}

bool CudaKernels::launch(const KernelCall& call, Precision precision) {
  // Only updates of weights are skipped.
  if (call.predicate != nullptr && call.kernel.kind != KernelKind::AdamW) return false;
  if (is_multiplied(call.kernel.kind)) return products_.launch(call, precision);
  if (call.kernel.kind == KernelKind::Attention && launch_attention(call, precision)) return true;
  return launch_work(call, precision, place_);
}

std::size_t CudaKernels::bytes() const {
  return place_.bytes() + Products::kWorkspaceBytes + attention_->bytes();
}

void CudaKernels::prepare(const KernelCall& call, Precision precision) {
  if (is_multiplied(call.kernel.kind)) return products_.prepare(call, precision);
  const bool attends = call.kernel.kind == KernelKind::Attention;
  if (attends && prepare_attention(call, precision)) return;
  prepare_work(call, precision, place_);
}

bool CudaKernels::prepare_attention(const KernelCall& call, Precision precision) {
  if (attention_->prepare(call, precision)) return true;
  if (!may_repeat_heads(call.kernel, precision)) return false;
  const RepeatedHeads repeated(call, place_);
  return attention_->prepare(repeated.call(), precision);
}

bool CudaKernels::launch_attention(const KernelCall& call, Precision precision) {
  if (attention_->launch(call, precision)) return true;
  if (!may_repeat_heads(call.kernel, precision)) return false;
  const RepeatedHeads repeated(call, place_);
  if (!attention_->has(repeated.call(), precision)) return false;
  repeated.repeat();
  attention_->launch(repeated.call(), precision);
  if (call.kernel.phase == Phase::InputGradient) repeated.add_up(precision);
  return true;
}

bool has_kernel(const Kernel& kernel, Precision precision) {
  if (kernel.kind == KernelKind::Load) return true;  // is written by the host
  if (is_multiplied(kernel.kind)) return is_product(kernel);
  const std::vector<std::byte*> nowhere(kernel.operands.size());
  const StepSettings settings;
  return has_work({kernel, nowhere, settings}, precision);
}

}  // namespace meshwright::cuda

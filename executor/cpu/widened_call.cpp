#include "executor/cpu/widened_call.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "executor/stored.h"

namespace meshwright {
namespace {

// An operand's elements without gaps, in the order they lie in memory; those that a stride of 0
// repeats, once.
class Packing {
 public:
  explicit Packing(const Operand& operand) : operand_(operand) {
    std::vector<std::size_t> dims(operand.sizes.size());
    std::iota(dims.begin(), dims.end(), std::size_t{0});
    std::ranges::stable_sort(dims, std::ranges::greater(),
                             [&](std::size_t d) { return operand.strides[d]; });
    operand_.offset = 0;
    operand_.element = BufferElement::Single;
    for (const std::size_t d : dims) add(operand.sizes[d], operand.strides[d]);
    for (std::size_t i = dims.size(); i-- > 0;) {
      const std::size_t d = dims[i];
      assert(operand.strides[d] >= 0);
      if (operand.strides[d] == 0) continue;
      operand_.strides[d] = count_;
      count_ *= operand.sizes[d];
    }
    if (sizes_.empty()) add_run(1, 1);
  }

  const Operand& operand() const { return operand_; }
  std::int64_t count() const { return count_; }
  // Between the elements of a run.
  std::int64_t stride() const { return strides_.back(); }
  // Calls visit(place in the buffer, place among the packed, how many).
  template <class Visit>
  void for_each_run(Visit visit) const {
    const Places runs({sizes_.data(), sizes_.size() - 1}, {strides_.data(), strides_.size() - 1});
    for (std::int64_t r = 0; r < runs.count() && count_ > 0; ++r) {
      visit(runs[r], r * sizes_.back(), sizes_.back());
    }
  }

 private:
  // The next dimension inwards, one with that before where there is no gap between.
  void add(std::int64_t size, std::int64_t stride) {
    if (stride == 0 || size == 1) return;
    if (sizes_.empty() || strides_.back() != stride * size) return add_run(size, stride);
    sizes_.back() *= size;
    strides_.back() = stride;
  }
  void add_run(std::int64_t size, std::int64_t stride) {
    sizes_.push_back(size);
    strides_.push_back(stride);
  }

  Operand operand_;
  std::int64_t count_ = 1;
  std::vector<std::int64_t> sizes_, strides_;
};

// Processors have an instruction for fp16, which compilers use where they may take it for granted.
#ifdef __x86_64__
#define MESHWRIGHT_F16C __attribute__((target("f16c")))
bool has_f16c() { return __builtin_cpu_supports("f16c"); }
#else
#define MESHWRIGHT_F16C
bool has_f16c() { return true; }
#endif

template <class Stored>
inline __attribute__((always_inline)) void widen_each(const Stored* from, std::int64_t stride,
                                                      std::int64_t count, float* to) {
  if (stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i * stride]);
  }
}

template <class Stored>
inline __attribute__((always_inline)) void narrow_each(const float* from, std::int64_t count,
                                                       Stored* to, std::int64_t stride) {
  if (stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<Stored>(from[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * stride] = static_cast<Stored>(from[i]);
  }
}

MESHWRIGHT_F16C void widen_fast(const Float16* from, std::int64_t stride, std::int64_t count,
                                float* to) {
  widen_each(from, stride, count, to);
}
MESHWRIGHT_F16C void narrow_fast(const float* from, std::int64_t count, Float16* to,
                                 std::int64_t stride) {
  narrow_each(from, count, to, stride);
}

void widen(const Float16* from, std::int64_t stride, std::int64_t count, float* to) {
  has_f16c() ? widen_fast(from, stride, count, to) : widen_each(from, stride, count, to);
}
void narrow(const float* from, std::int64_t count, Float16* to, std::int64_t stride) {
  has_f16c() ? narrow_fast(from, count, to, stride) : narrow_each(from, count, to, stride);
}
void widen(const BFloat16* from, std::int64_t stride, std::int64_t count, float* to) {
  widen_each(from, stride, count, to);
}
void narrow(const float* from, std::int64_t count, BFloat16* to, std::int64_t stride) {
  narrow_each(from, count, to, stride);
}

// Calls use(start) with the operand's first element.
template <class Use>
void with_numbers(const KernelCall& call, std::size_t operand, Precision precision, Use use) {
  if (precision == Precision::BF16) return use(call.data<BFloat16>(operand));
  assert(precision == Precision::FP16);
  use(call.data<Float16>(operand));
}

}  // namespace

bool is_widened(Precision precision) {
  return precision == Precision::BF16 || precision == Precision::FP16;
}

Bytes widened_bytes(const Kernel& kernel, std::int64_t rows) {
  Bytes total;
  for (Operand operand : kernel.operands) {
    if (operand.element != BufferElement::Real) continue;
    if (operand.counted) operand.sizes[0] = rows;
    total += Bytes(static_cast<std::int64_t>(sizeof(float))) * Packing(operand).count();
  }
  return total;
}

WidenedCall::WidenedCall(const KernelCall& call, Precision precision)
    : call_(call),
      precision_(precision),
      kernel_(call.kernel),
      copies_(call.operand_count()),
      buffers_(call.buffers.begin(), call.buffers.end()) {
  for (std::size_t i = 0; i < call.operand_count(); ++i) {
    if (call.operand(i).element != BufferElement::Real) continue;
    const Packing packing(call.operand(i));
    kernel_.operands[i] = packing.operand();
    copies_[i] = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(packing.count()));
    buffers_[i] = reinterpret_cast<std::byte*>(copies_[i].get());
    // What is written too: a kernel may add to it, or leave some of it as it is.
    with_numbers(call, i, precision, [&](const auto* numbers) {
      packing.for_each_run([&](std::int64_t at, std::int64_t packed, std::int64_t count) {
        widen(numbers + at, packing.stride(), count, copies_[i].get() + packed);
      });
    });
  }
}

void WidenedCall::store() const {
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    if (!copies_[i] || !call_.operand(i).written) continue;
    const Packing packing(call_.operand(i));
    with_numbers(call_, i, precision_, [&](auto* numbers) {
      packing.for_each_run([&](std::int64_t at, std::int64_t packed, std::int64_t count) {
        narrow(copies_[i].get() + packed, count, numbers + at, packing.stride());
      });
    });
  }
}

}  // namespace meshwright

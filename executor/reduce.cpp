#include "executor/reduce.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace meshwright {
namespace {

struct SumOf {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct MaxOf {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || b != b ? b : a;
  }
};

template <class T, class Operation>
void reduce_as(std::span<const std::byte* const> sources, std::size_t count, std::byte* result,
               Operation operation) {
  std::array<T, 1024> block;  // what stays in the cache while sources are added to it
  for (std::size_t start = 0; start < count; start += block.size()) {
    const std::size_t size = std::min(block.size(), count - start);
    std::copy_n(reinterpret_cast<const T*>(sources[0]) + start, size, block.begin());
    for (const std::byte* source : sources.subspan(1)) {
      const T* from = reinterpret_cast<const T*>(source) + start;
      for (std::size_t i = 0; i < size; ++i) block[i] = operation(block[i], from[i]);
    }
    std::copy_n(block.begin(), size, reinterpret_cast<T*>(result) + start);
  }
}

template <class T>
void reduce_by(Reduction reduction, std::span<const std::byte* const> sources, std::size_t count,
               std::byte* result) {
  switch (reduction) {
    case Reduction::Sum:
      return reduce_as<T>(sources, count, result, SumOf());
    case Reduction::Max:
      return reduce_as<T>(sources, count, result, MaxOf());
  }
}

}  // namespace

void reduce(Reduction reduction, BufferElement element, Precision precision,
            std::span<const std::byte* const> sources, std::size_t count, std::byte* result) {
  if (element == BufferElement::Index) {
    return reduce_by<std::int32_t>(reduction, sources, count, result);
  }
  if (element == BufferElement::Double || precision == Precision::FP64) {
    return reduce_by<double>(reduction, sources, count, result);
  }
  if (precision != Precision::FP32) {
    throw std::logic_error("cannot reduce " + std::string(to_text(precision)));
  }
  reduce_by<float>(reduction, sources, count, result);
}

}  // namespace meshwright

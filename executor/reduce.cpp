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

// Calls visit(i, element) for `size` elements of a row from `first` on. Elements side by side have
// a loop of their own, which the compiler makes fast.
template <class T, class Visit>
void visit_row(const Row& row, std::size_t first, std::size_t size, Visit visit) {
  T* from = reinterpret_cast<T*>(row.start) + static_cast<std::int64_t>(first) * row.stride;
  if (row.stride == 1) {
    for (std::size_t i = 0; i < size; ++i) visit(i, from[i]);
  } else {
    for (std::size_t i = 0; i < size; ++i, from += row.stride) visit(i, *from);
  }
}

template <class T, class Operation>
void reduce_as(std::span<const Row> sources, std::size_t count, const Row& result,
               Operation operation) {
  std::array<T, 1024> block;  // what stays in the cache while sources are added to it
  for (std::size_t start = 0; start < count; start += block.size()) {
    const std::size_t size = std::min(block.size(), count - start);
    visit_row<const T>(sources[0], start, size, [&](std::size_t i, T x) { block[i] = x; });
    for (const Row& source : sources.subspan(1)) {
      visit_row<const T>(source, start, size,
                         [&](std::size_t i, T x) { block[i] = operation(block[i], x); });
    }
    visit_row<T>(result, start, size, [&](std::size_t i, T& x) { x = block[i]; });
  }
}

template <class T>
void reduce_by(Reduction reduction, std::span<const Row> sources, std::size_t count,
               const Row& result) {
  switch (reduction) {
    case Reduction::Sum:
      return reduce_as<T>(sources, count, result, SumOf());
    case Reduction::Max:
      return reduce_as<T>(sources, count, result, MaxOf());
  }
}

}  // namespace

void reduce(Reduction reduction, BufferElement element, Precision precision,
            std::span<const Row> sources, std::size_t count, const Row& result) {
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

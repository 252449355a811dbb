#include "executor/reduce.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "executor/stored.h"

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
  using Wide = WideOf<T>;
  std::array<Wide, 1024> block;  // what stays in the cache while sources are added to it
  for (std::size_t start = 0; start < count; start += block.size()) {
    const std::size_t size = std::min(block.size(), count - start);
    visit_row<const T>(sources[0], start, size, [&](std::size_t i, Wide x) { block[i] = x; });
    for (const Row& source : sources.subspan(1)) {
      visit_row<const T>(source, start, size,
                         [&](std::size_t i, Wide x) { block[i] = operation(block[i], x); });
    }
    visit_row<T>(result, start, size, [&](std::size_t i, T& x) { x = static_cast<T>(block[i]); });
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
  with_stored(element, precision,
              [&](auto type) { reduce_by<decltype(type)>(reduction, sources, count, result); });
}

}  // namespace meshwright

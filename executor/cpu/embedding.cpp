#include <algorithm>
#include <optional>

#include "executor/cpu/kernels.h"

namespace meshwright {
namespace {

// The table's row for an index, where the device holds it.
std::optional<std::int64_t> held_row(const KernelCall& call, std::int32_t index,
                                     std::int64_t rows) {
  const std::int64_t row = index - call.kernel.first_row;
  return row >= 0 && row < rows ? std::optional(row) : std::nullopt;
}

}  // namespace

template <class Real>
void embedding_forward(const KernelCall& call) {
  const auto index = call.elements<const std::int32_t>(0);
  const auto table = call.dense_rows<const Real>(1);
  const auto y = call.dense_rows<Real>(2);
  for (std::int64_t i = 0; i < index.count(); ++i) {
    if (const auto row = held_row(call, index[i], table.count())) {
      std::copy_n(table[*row], y.columns, y[i]);
    } else {
      std::fill_n(y[i], y.columns, Real(0));
    }
  }
}

template <class Real>
void embedding_weight_gradient(const KernelCall& call) {
  const auto index = call.elements<const std::int32_t>(0);
  const auto dy = call.dense_rows<const Real>(1);
  const auto dtable = call.dense_rows<Real>(2);
  if (!call.kernel.accumulate) {
    for (std::int64_t r = 0; r < dtable.count(); ++r) {
      std::fill_n(dtable[r], dtable.columns, Real(0));
    }
  }
  for (std::int64_t i = 0; i < index.count(); ++i) {
    if (const auto row = held_row(call, index[i], dtable.count())) {
      const Real* from = dy[i];
      Real* to = dtable[*row];
      for (std::int64_t c = 0; c < dtable.columns; ++c) to[c] += from[c];
    }
  }
}

template void embedding_forward<float>(const KernelCall&);
template void embedding_forward<double>(const KernelCall&);
template void embedding_weight_gradient<float>(const KernelCall&);
template void embedding_weight_gradient<double>(const KernelCall&);

}  // namespace meshwright

#include "executor/cpu/kernels.h"
#include "executor/rope_table.h"

namespace meshwright {
namespace {

template <class Real>
void turn(const KernelCall& call, Real direction, bool has_addend) {
  const auto& rope = call.attributes<RopeAttributes>();
  const auto& sizes = call.operand(0).sizes;
  assert(sizes.size() >= 3 && call.kernel.place.size() == sizes.size());
  assert(rope.rotated % 2 == 0 && rope.first + rope.rotated <= sizes.back());
  const RopeTable<Real> table(rope, call.kernel.place[1].ranges);
  const auto x = call.dense_rows<const Real>(0);
  const auto addend = call.dense_rows<const Real>(has_addend ? 1 : 0);
  const auto y = call.dense_rows<Real>(has_addend ? 2 : 1);
  if (x.count() == 0) return;  // a shard may have nothing of the sequence
  const std::int64_t rows_per_position = x.count() / (sizes[0] * sizes[1]);
  for (std::int64_t r = 0; r < x.count(); ++r) {
    const std::int64_t at = r / rows_per_position % sizes[1] * (rope.rotated / 2);
    rope_row(x[r], table.cosines.data() + at, table.sines.data() + at, direction,
             has_addend ? addend[r] : nullptr, pairs_of(rope), x.columns, y[r]);
  }
}

}  // namespace

template <class Real>
void rope_forward(const KernelCall& call) {
  turn<Real>(call, 1, false);
}

template <class Real>
void rope_input_gradient(const KernelCall& call) {
  turn<Real>(call, -1, call.kernel.has_addend);
}

template void rope_forward<float>(const KernelCall&);
template void rope_forward<double>(const KernelCall&);
template void rope_input_gradient<float>(const KernelCall&);
template void rope_input_gradient<double>(const KernelCall&);

}  // namespace meshwright

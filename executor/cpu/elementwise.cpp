#include "executor/cpu/kernels.h"
#include "executor/math.h"
#include "executor/random.h"

namespace meshwright {
namespace {

// y = value(element of x, row, column) over operands of one shape.
template <class Real, class Value>
void map_rows(const Rows<const Real>& x, const Rows<Real>& y, Value value) {
  for (std::int64_t r = 0; r < y.count(); ++r) {
    const Real* from = x[r];
    Real* to = y[r];
    for (std::int64_t c = 0; c < y.columns; ++c) to[c * y.step] = value(from[c * x.step], r, c);
  }
}

template <class Real, class Value>
void map_rows(const Rows<const Real>& a, const Rows<const Real>& b, const Rows<Real>& y,
              Value value) {
  for (std::int64_t r = 0; r < y.count(); ++r) {
    const Real* first = a[r];
    const Real* second = b[r];
    Real* to = y[r];
    for (std::int64_t c = 0; c < y.columns; ++c) {
      to[c * y.step] = value(first[c * a.step], second[c * b.step], r, c);
    }
  }
}

// Where a row starts in the whole tensor, in row-major order.
class GlobalRows {
 public:
  explicit GlobalRows(const KernelCall& call, const Operand& x) : x_(x), place_(call.kernel.place) {
    assert(place_.size() == x.sizes.size());
    place_[0].ranges = {{call.batch_row, x.sizes[0]}};
  }
  std::uint64_t operator[](std::int64_t row) const {
    std::uint64_t index = 0;
    auto stride = static_cast<std::uint64_t>(place_.back().size);
    for (std::size_t i = place_.size() - 1; i-- > 0;) {
      index += stride * static_cast<std::uint64_t>(place_at(place_[i], row % x_.sizes[i]));
      stride *= static_cast<std::uint64_t>(place_[i].size);
      row /= x_.sizes[i];
    }
    return index;
  }
  const std::vector<ShardRange>& columns() const { return place_.back().ranges; }

 private:
  const Operand& x_;
  std::vector<DimPlace> place_;
};

template <class Real>
void drop(const KernelCall& call, std::size_t from, std::size_t to, bool has_addend) {
  const double probability = call.attributes<DropoutAttributes>().probability;
  const RandomKey key = random_key(call.settings.seed, call.kernel.name, call.settings.step);
  const GlobalRows global(call, call.operand(from));
  const auto x = call.rows<const Real>(from);
  const auto y = call.rows<Real>(to);
  const auto addend = call.rows<const Real>(has_addend ? from + 1 : from);
  for (std::int64_t r = 0; r < y.count(); ++r) {
    const Real *in = x[r], *added = addend[r];
    Real* out = y[r];
    std::int64_t c = 0;
    for (const ShardRange& range : global.columns()) {
      std::uint64_t place = global[r] + static_cast<std::uint64_t>(range.start);
      for (const std::int64_t end = c + range.size; c < end; ++c, ++place) {
        const auto factor = static_cast<Real>(dropout_factor(key, place, probability));
        const Real kept = in[c * x.step] * factor;
        out[c * y.step] = has_addend ? added[c * addend.step] + kept : kept;
      }
    }
  }
}

template <class Real>
void scale_by(const KernelCall& call, std::size_t to) {
  const auto factor = static_cast<Real>(call.attributes<ScaleAttributes>().factor);
  const auto x = call.rows<const Real>(0);
  const auto y = call.rows<Real>(to);
  if (to == 1) {
    map_rows<Real>(x, y, [=](Real value, std::int64_t, std::int64_t) { return factor * value; });
    return;
  }
  map_rows<Real>(
      call.rows<const Real>(1), x, y,
      [=](Real added, Real value, std::int64_t, std::int64_t) { return added + factor * value; });
}

}  // namespace

template <class Real>
void activation_forward(const KernelCall& call) {
  const auto x = call.rows<const Real>(0);
  const auto y = call.rows<Real>(1);
  with_math(call.attributes<FunctionAttributes>().function, [&](auto math) {
    map_rows<Real>(x, y, [&](Real value, std::int64_t, std::int64_t) { return math.value(value); });
  });
}

template <class Real>
void activation_input_gradient(const KernelCall& call) {
  const bool has_addend = call.kernel.has_addend;
  const auto x = call.rows<const Real>(0);
  const auto dy = call.rows<const Real>(1);
  const auto dx = call.rows<Real>(has_addend ? 3 : 2);
  const auto addend = call.rows<const Real>(has_addend ? 2 : 1);
  with_math(call.attributes<FunctionAttributes>().function, [&](auto math) {
    for (std::int64_t r = 0; r < dx.count(); ++r) {
      const Real *in = x[r], *gradient = dy[r], *added = addend[r];
      Real* out = dx[r];
      for (std::int64_t c = 0; c < dx.columns; ++c) {
        const Real slope = math.slope(in[c * x.step]) * gradient[c * dy.step];
        out[c * dx.step] = has_addend ? added[c * addend.step] + slope : slope;
      }
    }
  });
}

template <class Real>
void scale_forward(const KernelCall& call) {
  scale_by<Real>(call, 1);
}

template <class Real>
void scale_input_gradient(const KernelCall& call) {
  scale_by<Real>(call, call.kernel.has_addend ? 2 : 1);
}

template <class Real>
void dropout_forward(const KernelCall& call) {
  drop<Real>(call, 0, 1, false);
}

template <class Real>
void dropout_input_gradient(const KernelCall& call) {
  drop<Real>(call, 0, call.kernel.has_addend ? 2 : 1, call.kernel.has_addend);
}

template <class Real>
void add_forward(const KernelCall& call) {
  map_rows<Real>(call.rows<const Real>(0), call.rows<const Real>(1), call.rows<Real>(2),
                 [](Real a, Real b, std::int64_t, std::int64_t) { return a + b; });
}

// Two passes, for an element of dx stands for several of dy: the first sets it as often as it
// stands there, the second adds.
template <class Real>
void sum_input_gradient(const KernelCall& call) {
  const bool has_addend = call.kernel.has_addend;
  assert(!has_addend || !call.kernel.accumulate);
  const auto dy = call.rows<const Real>(0);
  const auto dx = call.rows<Real>(has_addend ? 2 : 1);
  if (has_addend) {
    map_rows<Real>(call.rows<const Real>(1), dx,
                   [](Real a, std::int64_t, std::int64_t) { return a; });
  } else if (!call.kernel.accumulate) {
    map_rows<Real>(dy, dx, [](Real, std::int64_t, std::int64_t) { return Real(0); });
  }
  for (std::int64_t r = 0; r < dx.count(); ++r) {
    const Real* from = dy[r];
    Real* to = dx[r];
    for (std::int64_t c = 0; c < dx.columns; ++c) to[c * dx.step] += from[c * dy.step];
  }
}

template void activation_forward<float>(const KernelCall&);
template void activation_forward<double>(const KernelCall&);
template void activation_input_gradient<float>(const KernelCall&);
template void activation_input_gradient<double>(const KernelCall&);
template void scale_forward<float>(const KernelCall&);
template void scale_forward<double>(const KernelCall&);
template void scale_input_gradient<float>(const KernelCall&);
template void scale_input_gradient<double>(const KernelCall&);
template void dropout_forward<float>(const KernelCall&);
template void dropout_forward<double>(const KernelCall&);
template void dropout_input_gradient<float>(const KernelCall&);
template void dropout_input_gradient<double>(const KernelCall&);
template void add_forward<float>(const KernelCall&);
template void add_forward<double>(const KernelCall&);
template void sum_input_gradient<float>(const KernelCall&);
template void sum_input_gradient<double>(const KernelCall&);

}  // namespace meshwright

#include "executor/cpu/kernels.h"
#include "executor/math.h"

namespace meshwright {

template <class Real>
void gated_activation_forward(const KernelCall& call) {
  const auto gate = call.rows<const Real>(0);
  const auto x = call.rows<const Real>(1);
  const auto y = call.rows<Real>(2);
  with_math(call.attributes<FunctionAttributes>().function, [&](auto math) {
    for (std::int64_t r = 0; r < y.count(); ++r) {
      const Real *gate_row = gate[r], *in = x[r];
      Real* out = y[r];
      for (std::int64_t c = 0; c < y.columns; ++c) {
        out[c * y.step] = math.value(gate_row[c * gate.step]) * in[c * x.step];
      }
    }
  });
}

template <class Real>
void gated_activation_input_gradient(const KernelCall& call) {
  const auto gate = call.rows<const Real>(0);
  const auto x = call.rows<const Real>(1);
  const auto dy = call.rows<const Real>(2);
  const auto dgate = call.rows<Real>(3);
  const auto dx = call.rows<Real>(4);
  with_math(call.attributes<FunctionAttributes>().function, [&](auto math) {
    for (std::int64_t r = 0; r < dy.count(); ++r) {
      const Real *gate_row = gate[r], *in = x[r], *gradient = dy[r];
      Real *gate_out = dgate[r], *out = dx[r];
      for (std::int64_t c = 0; c < dy.columns; ++c) {
        const Real g = gate_row[c * gate.step], d = gradient[c * dy.step];
        gate_out[c * dgate.step] = math.slope(g) * in[c * x.step] * d;
        out[c * dx.step] = math.value(g) * d;
      }
    }
  });
}

template void gated_activation_forward<float>(const KernelCall&);
template void gated_activation_forward<double>(const KernelCall&);
template void gated_activation_input_gradient<float>(const KernelCall&);
template void gated_activation_input_gradient<double>(const KernelCall&);

}  // namespace meshwright

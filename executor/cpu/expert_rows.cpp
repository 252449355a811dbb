#include <algorithm>
#include <utility>

#include "executor/cpu/kernels.h"

namespace meshwright {

void expert_order_forward(const KernelCall& call) {
  const auto expert = call.elements<const std::int32_t>(0);
  const auto place = call.elements<std::int32_t>(1);
  const auto counts = call.elements<std::int32_t>(2);
  std::vector<std::int32_t> next(static_cast<std::size_t>(counts.count()));
  for (std::int64_t i = 0; i < expert.count(); ++i) {
    if (expert[i] >= 0) ++next[static_cast<std::size_t>(expert[i])];
  }
  std::int32_t first = 0;
  for (std::size_t e = 0; e < next.size(); ++e) {
    counts[static_cast<std::int64_t>(e)] = next[e];
    first += std::exchange(next[e], first);
  }
  for (std::int64_t i = 0; i < expert.count(); ++i) {
    place[i] = expert[i] >= 0 ? next[static_cast<std::size_t>(expert[i])]++ : -1;
  }
}

template <class Real>
void dispatch_forward(const KernelCall& call) {
  const auto x = call.dense_rows<const Real>(0);
  const auto place = call.dense_rows<const std::int32_t>(1);
  const auto y = call.dense_rows<Real>(2);
  for (std::int64_t r = 0; r < x.count(); ++r) {
    for (std::int64_t c = 0; c < place.columns; ++c) {
      if (place[r][c] >= 0) std::copy_n(x[r], x.columns, y[place[r][c]]);
    }
  }
}

template <class Real>
void dispatch_input_gradient(const KernelCall& call) {
  const bool has_addend = call.kernel.has_addend;
  const auto place = call.dense_rows<const std::int32_t>(0);
  const auto dy = call.dense_rows<const Real>(1);
  const auto dx = call.dense_rows<Real>(has_addend ? 3 : 2);
  for (std::int64_t r = 0; r < dx.count(); ++r) {
    if (has_addend) {
      std::copy_n(call.dense_rows<const Real>(2)[r], dx.columns, dx[r]);
    } else {
      std::fill_n(dx[r], dx.columns, Real(0));
    }
    for (std::int64_t c = 0; c < place.columns; ++c) {
      if (place[r][c] < 0) continue;
      const Real* from = dy[place[r][c]];
      for (std::int64_t f = 0; f < dx.columns; ++f) dx[r][f] += from[f];
    }
  }
}

template <class Real>
void combine_forward(const KernelCall& call) {
  const auto x = call.dense_rows<const Real>(0);
  const auto share = call.dense_rows<const Real>(1);
  const auto place = call.dense_rows<const std::int32_t>(2);
  const auto y = call.dense_rows<Real>(3);
  for (std::int64_t r = 0; r < y.count(); ++r) {
    std::fill_n(y[r], y.columns, Real(0));
    for (std::int64_t c = 0; c < place.columns; ++c) {
      if (place[r][c] < 0) continue;
      const Real* from = x[place[r][c]];
      for (std::int64_t f = 0; f < y.columns; ++f) y[r][f] += share[r][c] * from[f];
    }
  }
}

template <class Real>
void combine_input_gradient(const KernelCall& call) {
  const auto x = call.dense_rows<const Real>(0);
  const auto share = call.dense_rows<const Real>(1);
  const auto place = call.dense_rows<const std::int32_t>(2);
  const auto dy = call.dense_rows<const Real>(3);
  const auto dx = call.dense_rows<Real>(4);
  const auto dshare = call.dense_rows<Real>(5);
  for (std::int64_t r = 0; r < dy.count(); ++r) {
    for (std::int64_t c = 0; c < place.columns; ++c) {
      dshare[r][c] = 0;
      if (place[r][c] < 0) continue;
      const Real *from = x[place[r][c]], *gradient = dy[r];
      Real* to = dx[place[r][c]];
      Real sum = 0;
      for (std::int64_t f = 0; f < dy.columns; ++f) {
        sum += from[f] * gradient[f];
        to[f] = share[r][c] * gradient[f];
      }
      dshare[r][c] = sum;
    }
  }
}

namespace {

// counts [senders, experts]: calls with the first rows by sender and by expert, and their number.
template <class Move>
void for_each_run(const Elements<const std::int32_t>& counts, std::int64_t senders,
                  const Move& move) {
  const std::int64_t experts = senders == 0 ? 0 : counts.count() / senders;
  std::int64_t by_expert = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    std::int64_t by_sender = 0;
    for (std::int64_t s = 0; s < senders; ++s) {
      for (std::int64_t other = 0; other < experts; ++other) {
        const std::int64_t rows = counts[s * experts + other];
        if (other == e) {
          move(by_sender, by_expert, rows);
          by_expert += rows;
        }
        by_sender += rows;
      }
    }
  }
}

}  // namespace

template <class Real>
void sort_rows_forward(const KernelCall& call) {
  const auto x = call.dense_rows<const Real>(0);
  const auto y = call.dense_rows<Real>(2);
  for_each_run(call.elements<const std::int32_t>(1), call.operand(1).sizes[0],
               [&](std::int64_t by_sender, std::int64_t by_expert, std::int64_t rows) {
                 if (rows > 0) std::copy_n(x[by_sender], rows * x.columns, y[by_expert]);
               });
}

template <class Real>
void sort_rows_input_gradient(const KernelCall& call) {
  const auto dy = call.dense_rows<const Real>(0);
  const auto dx = call.dense_rows<Real>(2);
  for_each_run(call.elements<const std::int32_t>(1), call.operand(1).sizes[0],
               [&](std::int64_t by_sender, std::int64_t by_expert, std::int64_t rows) {
                 if (rows > 0) std::copy_n(dy[by_expert], rows * dy.columns, dx[by_sender]);
               });
}

template void dispatch_forward<float>(const KernelCall&);
template void dispatch_forward<double>(const KernelCall&);
template void dispatch_input_gradient<float>(const KernelCall&);
template void dispatch_input_gradient<double>(const KernelCall&);
template void combine_forward<float>(const KernelCall&);
template void combine_forward<double>(const KernelCall&);
template void combine_input_gradient<float>(const KernelCall&);
template void combine_input_gradient<double>(const KernelCall&);
template void sort_rows_forward<float>(const KernelCall&);
template void sort_rows_forward<double>(const KernelCall&);
template void sort_rows_input_gradient<float>(const KernelCall&);
template void sort_rows_input_gradient<double>(const KernelCall&);

}  // namespace meshwright

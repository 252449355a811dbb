#pragma once

#include "executor/cuda/element_work.h"

// What kernels do with one row. A team of threads shares a row: member `rank` of `size` takes
// every size-th column from its own on, and every member calls the same team functions in the same
// order: sum(x) and largest(x) give all of them the sum or the largest of what each brought.
namespace meshwright::work {

// The columns of a member.
template <class Team, class Use>
MESHWRIGHT_HD inline void for_columns(const Team& team, std::int64_t columns, Use use) {
  for (std::int64_t c = team.rank(); c < columns; c += team.size()) use(c);
}
template <class Real, class Team, class Term>
MESHWRIGHT_HD inline Real sum_of_columns(Team& team, std::int64_t columns, Term term) {
  Real sum = 0;
  for_columns(team, columns, [&](std::int64_t c) { sum += term(c); });
  return team.sum(sum);
}

// Two sums of whole rows, of which a kernel has some columns; none: it has all of them.
struct WholeSums {
  const double* sums = nullptr;
  double length = 1;
  MESHWRIGHT_HD explicit operator bool() const { return sums != nullptr; }
  template <class Real>
  MESHWRIGHT_HD Real mean(std::int64_t row, std::int64_t which) const {
    return static_cast<Real>(sums[2 * row + which] / length);
  }
};

template <class Stored>
struct RowSums {
  RowsOf<const Stored> x;
  std::int64_t columns;
  double* sums;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored* const from = x[row];
    const auto value = [&](std::int64_t c) { return static_cast<double>(load(from, c)); };
    const double sum = sum_of_columns<double>(team, columns, value);
    const double squares =
        sum_of_columns<double>(team, columns, [&](std::int64_t c) { return value(c) * value(c); });
    if (team.rank() != 0) return;
    sums[2 * row] = sum;
    sums[2 * row + 1] = squares;
  }
};

// Statistics of rows (mean, scale) are kept in what is computed with.
template <class Stored>
struct RowSumsGradient {
  using Real = RealOf<Stored>;
  RowsOf<const Stored> x;
  const Stored* gain;
  In<Real> mean, scale;  // no mean: of an RMS norm
  RowsOf<const Stored> dy;
  Real shift;
  std::int64_t columns;
  double* sums;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored *const from = x[row], *const gradient = dy[row];
    const RowMoments<Real> moments{mean ? load(mean, row) : Real(0), load(scale, row)};
    const auto g = [&](std::int64_t c) { return (load(gain, c) + shift) * load(gradient, c); };
    const double sum = sum_of_columns<double>(
        team, columns, [&](std::int64_t c) { return static_cast<double>(g(c)); });
    const double products = sum_of_columns<double>(team, columns, [&](std::int64_t c) {
      return static_cast<double>(g(c) * normalized(load(from, c), moments));
    });
    if (team.rank() != 0) return;
    sums[2 * row] = sum;
    sums[2 * row + 1] = products;
  }
};

template <class Stored>
struct LayerNorm {
  using Real = RealOf<Stored>;
  RowsOf<const Stored> x;
  const Stored *gain, *bias;
  WholeSums whole;
  Real shift;
  double epsilon;
  std::int64_t columns;
  RowsOf<Stored> y;
  Out<Real> mean, scale;
  template <class Team>
  MESHWRIGHT_HD RowMoments<Real> moments_of(Team& team, std::int64_t row) const {
    if (whole) return moments_of_sums<Real>(whole.sums + 2 * row, whole.length, epsilon);
    const Stored* const from = x[row];
    const Real n = static_cast<Real>(columns);
    const Real middle =
        sum_of_columns<Real>(team, columns, [&](std::int64_t c) { return load(from, c); }) / n;
    const Real variance =
        sum_of_columns<Real>(
            team, columns,
            [&](std::int64_t c) { return (load(from, c) - middle) * (load(from, c) - middle); }) /
        n;
    return {middle, inverse_deviation(variance, epsilon)};
  }
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored* const from = x[row];
    Stored* const to = y[row];
    const RowMoments<Real> moments = moments_of(team, row);
    for_columns(team, columns, [&](std::int64_t c) {
      const Real value = normalized(load(from, c), moments);
      store(to, c, (load(gain, c) + shift) * value + load(bias, c));
    });
    if (team.rank() != 0) return;
    store(mean, row, moments.mean);
    store(scale, row, moments.scale);
  }
};

template <class Stored>
struct LayerNormGradient {
  using Real = RealOf<Stored>;
  RowsOf<const Stored> x;
  const Stored* gain;
  In<Real> mean, scale;
  RowsOf<const Stored> dy;
  WholeSums whole;
  RowsOf<const Stored> addend;
  Real shift;
  std::int64_t columns;
  RowsOf<Stored> dx;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored *const from = x[row], *const gradient = dy[row];
    const RowMoments<Real> moments{load(mean, row), load(scale, row)};
    const auto g = [&](std::int64_t c) { return (load(gain, c) + shift) * load(gradient, c); };
    const auto h = [&](std::int64_t c) { return normalized(load(from, c), moments); };
    const Real n = static_cast<Real>(columns);
    const auto gh = [&](std::int64_t c) { return g(c) * h(c); };
    const Real mean_g =
        whole ? whole.mean<Real>(row, 0) : sum_of_columns<Real>(team, columns, g) / n;
    const Real mean_gh =
        whole ? whole.mean<Real>(row, 1) : sum_of_columns<Real>(team, columns, gh) / n;
    Stored* const to = dx[row];
    for_columns(team, columns, [&](std::int64_t c) {
      const Real slope = norm_slope(moments.scale, g(c), mean_g, h(c), mean_gh);
      store(to, c, addend ? load(addend[row], c) + slope : slope);
    });
  }
};

template <class Stored>
struct RmsNorm {
  using Real = RealOf<Stored>;
  RowsOf<const Stored> x;
  const Stored* gain;
  WholeSums whole;
  Real shift;
  double epsilon;
  std::int64_t columns;
  RowsOf<Stored> y;
  Out<Real> scale;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored* const from = x[row];
    Stored* const to = y[row];
    const auto square = [&](std::int64_t c) { return load(from, c) * load(from, c); };
    const Real squares =
        whole ? whole.mean<Real>(row, 1)
              : sum_of_columns<Real>(team, columns, square) / static_cast<Real>(columns);
    const Real row_scale = inverse_deviation(squares, epsilon);
    for_columns(team, columns, [&](std::int64_t c) {
      store(to, c, (load(gain, c) + shift) * (load(from, c) * row_scale));
    });
    if (team.rank() == 0) store(scale, row, row_scale);
  }
};

template <class Stored>
struct RmsNormGradient {
  using Real = RealOf<Stored>;
  RowsOf<const Stored> x;
  const Stored* gain;
  In<Real> scale;
  RowsOf<const Stored> dy;
  WholeSums whole;
  RowsOf<const Stored> addend;
  Real shift;
  std::int64_t columns;
  RowsOf<Stored> dx;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored *const from = x[row], *const gradient = dy[row];
    const Real row_scale = load(scale, row);
    const auto g = [&](std::int64_t c) { return (load(gain, c) + shift) * load(gradient, c); };
    const auto h = [&](std::int64_t c) { return load(from, c) * row_scale; };
    const auto gh = [&](std::int64_t c) { return g(c) * h(c); };
    const Real mean_gh = whole
                             ? whole.mean<Real>(row, 1)
                             : sum_of_columns<Real>(team, columns, gh) / static_cast<Real>(columns);
    Stored* const to = dx[row];
    for_columns(team, columns, [&](std::int64_t c) {
      const Real slope = rms_norm_slope(row_scale, g(c), h(c), mean_gh);
      store(to, c, addend ? load(addend[row], c) + slope : slope);
    });
  }
};

template <class Stored>
struct LossLargest {
  using Real = RealOf<Stored>;
  RowsOf<const Stored> logits;
  std::int64_t columns;
  Out<Real> largest;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored* const from = logits[row];
    Real top = load(from, 0);
    for_columns(team, columns, [&](std::int64_t c) {
      const Real value = load(from, c);
      top = value > top ? value : top;
    });
    top = team.largest(top);
    if (team.rank() == 0) store(largest, row, top);
  }
};

template <class Stored>
struct LossSums {
  using Real = RealOf<Stored>;
  RowsOf<const Stored> logits;
  In<std::int32_t> label;
  In<Real> largest;
  std::int64_t columns, first_row;
  Out<Real> sums;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored* const from = logits[row];
    const Real top = load(largest, row);
    const Real sum = sum_of_columns<Real>(
        team, columns, [&](std::int64_t c) { return std::exp(load(from, c) - top); });
    if (team.rank() != 0) return;
    const std::int64_t column = label[row] - first_row;
    const bool here = label[row] >= 0 && column >= 0 && column < columns;
    store(sums, 2 * row, sum);
    store(sums, 2 * row + 1, here ? load(from, column) : Real(0));
  }
};

template <class Stored>
struct LossGradient {
  using Real = RealOf<Stored>;
  RowsOf<const Stored> logits;
  In<std::int32_t> label;
  In<Real> largest, sums;
  const StepNumbers* numbers;
  double share;  // of this loss in that of the step
  std::int64_t columns, first_row;
  RowsOf<Stored> dlogits;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored* const from = logits[row];
    Stored* const to = dlogits[row];
    const bool counts = label[row] >= 0;
    const std::int64_t column = label[row] - first_row;
    const auto scale = static_cast<Real>(numbers->loss_slope * share);
    const Real factor = counts ? scale / load(sums, 2 * row) : Real(0);
    const Real top = load(largest, row);
    for_columns(team, columns, [&](std::int64_t c) {
      Real slope = counts ? logit_slope(load(from, c), top, factor) : Real(0);
      if (counts && c == column) slope -= scale;
      store(to, c, slope);
    });
  }
};

template <class Stored>
struct Embedding {
  In<std::int32_t> index;
  RowsOf<const Stored> table;
  std::int64_t rows, columns, first_row;
  RowsOf<Stored> y;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t i) const {
    const std::int64_t row = index[i] - first_row;
    const bool held = row >= 0 && row < rows;
    Stored* const to = y[i];
    for_columns(team, columns, [&](std::int64_t c) {
      store(to, c, held ? load(table[row], c) : RealOf<Stored>(0));
    });
  }
};

// Rows that are looked up twice are added to by two teams at once, so the order of additions is
// not fixed on a GPU.
template <class Stored, class Gradient>
struct EmbeddingGradient {
  In<std::int32_t> index;
  RowsOf<const Stored> dy;
  std::int64_t rows, columns, first_row;
  RowsOf<Gradient> dtable;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t i) const {
    const std::int64_t row = index[i] - first_row;
    if (row < 0 || row >= rows) return;
    const Stored* const from = dy[i];
    Gradient* const to = dtable[row];
    for_columns(team, columns,
                [&](std::int64_t c) { team.add(to + c, static_cast<Gradient>(load(from, c))); });
  }
};

}  // namespace meshwright::work

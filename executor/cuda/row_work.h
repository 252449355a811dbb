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

template <class Stored>
struct RowSums {
  const Stored* x;
  std::int64_t columns;
  double* sums;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const auto value = [&](std::int64_t c) {
      return static_cast<double>(load(x, row * columns + c));
    };
    const double sum = sum_of_columns<double>(team, columns, value);
    const double squares =
        sum_of_columns<double>(team, columns, [&](std::int64_t c) { return value(c) * value(c); });
    if (team.rank() != 0) return;
    sums[2 * row] = sum;
    sums[2 * row + 1] = squares;
  }
};

template <class Stored>
struct RowSumsGradient {
  using Real = RealOf<Stored>;
  const Stored *x, *gain, *mean, *scale, *dy;  // no mean: of an RMS norm
  Real shift;
  std::int64_t columns;
  double* sums;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const std::int64_t first = row * columns;
    const RowMoments<Real> moments{mean == nullptr ? Real(0) : load(mean, row), load(scale, row)};
    const auto g = [&](std::int64_t c) { return (load(gain, c) + shift) * load(dy, first + c); };
    const double sum = sum_of_columns<double>(
        team, columns, [&](std::int64_t c) { return static_cast<double>(g(c)); });
    const double products = sum_of_columns<double>(team, columns, [&](std::int64_t c) {
      return static_cast<double>(g(c) * normalized(load(x, first + c), moments));
    });
    if (team.rank() != 0) return;
    sums[2 * row] = sum;
    sums[2 * row + 1] = products;
  }
};

template <class Stored>
struct LayerNorm {
  using Real = RealOf<Stored>;
  const Stored *x, *gain, *bias;
  Real shift;
  double epsilon;
  std::int64_t columns;
  Stored *y, *mean, *scale;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored* from = x + row * columns;
    const Real n = static_cast<Real>(columns);
    const Real middle =
        sum_of_columns<Real>(team, columns, [&](std::int64_t c) { return load(from, c); }) / n;
    const Real variance =
        sum_of_columns<Real>(
            team, columns,
            [&](std::int64_t c) { return (load(from, c) - middle) * (load(from, c) - middle); }) /
        n;
    const RowMoments<Real> moments{middle, inverse_deviation(variance, epsilon)};
    for_columns(team, columns, [&](std::int64_t c) {
      const Real value = normalized(load(from, c), moments);
      store(y, row * columns + c, (load(gain, c) + shift) * value + load(bias, c));
    });
    if (team.rank() != 0) return;
    store(mean, row, moments.mean);
    store(scale, row, moments.scale);
  }
};

template <class Stored>
struct LayerNormGradient {
  using Real = RealOf<Stored>;
  const Stored *x, *gain, *mean, *scale, *dy, *addend;
  Real shift;
  std::int64_t columns;
  Stored* dx;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const std::int64_t first = row * columns;
    const RowMoments<Real> moments{load(mean, row), load(scale, row)};
    const auto g = [&](std::int64_t c) { return (load(gain, c) + shift) * load(dy, first + c); };
    const auto h = [&](std::int64_t c) { return normalized(load(x, first + c), moments); };
    const Real n = static_cast<Real>(columns);
    const Real mean_g = sum_of_columns<Real>(team, columns, g) / n;
    const Real mean_gh =
        sum_of_columns<Real>(team, columns, [&](std::int64_t c) { return g(c) * h(c); }) / n;
    for_columns(team, columns, [&](std::int64_t c) {
      const Real slope = norm_slope(moments.scale, g(c), mean_g, h(c), mean_gh);
      store(dx, first + c, addend == nullptr ? slope : load(addend, first + c) + slope);
    });
  }
};

template <class Stored>
struct RmsNorm {
  using Real = RealOf<Stored>;
  const Stored *x, *gain;
  Real shift;
  double epsilon;
  std::int64_t columns;
  Stored *y, *scale;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored* from = x + row * columns;
    const Real squares = sum_of_columns<Real>(
        team, columns, [&](std::int64_t c) { return load(from, c) * load(from, c); });
    const Real row_scale = inverse_deviation(squares / static_cast<Real>(columns), epsilon);
    for_columns(team, columns, [&](std::int64_t c) {
      store(y, row * columns + c, (load(gain, c) + shift) * (load(from, c) * row_scale));
    });
    if (team.rank() == 0) store(scale, row, row_scale);
  }
};

template <class Stored>
struct RmsNormGradient {
  using Real = RealOf<Stored>;
  const Stored *x, *gain, *scale, *dy, *addend;
  Real shift;
  std::int64_t columns;
  Stored* dx;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const std::int64_t first = row * columns;
    const Real row_scale = load(scale, row);
    const auto g = [&](std::int64_t c) { return (load(gain, c) + shift) * load(dy, first + c); };
    const auto h = [&](std::int64_t c) { return load(x, first + c) * row_scale; };
    const Real mean_gh =
        sum_of_columns<Real>(team, columns, [&](std::int64_t c) { return g(c) * h(c); }) /
        static_cast<Real>(columns);
    for_columns(team, columns, [&](std::int64_t c) {
      const Real slope = rms_norm_slope(row_scale, g(c), h(c), mean_gh);
      store(dx, first + c, addend == nullptr ? slope : load(addend, first + c) + slope);
    });
  }
};

template <class Stored>
struct LossLargest {
  using Real = RealOf<Stored>;
  const Stored* logits;
  std::int64_t columns;
  Stored* largest;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored* from = logits + row * columns;
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
  const Stored* logits;
  const std::int32_t* label;
  const Stored* largest;
  std::int64_t columns, first_row;
  Stored* sums;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored* from = logits + row * columns;
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
  const Stored* logits;
  const std::int32_t* label;
  const Stored *largest, *sums;
  Real scale;
  std::int64_t columns, first_row;
  Stored* dlogits;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const bool counts = label[row] >= 0;
    const std::int64_t column = label[row] - first_row, first = row * columns;
    const Real factor = counts ? scale / load(sums, 2 * row) : Real(0);
    const Real top = load(largest, row);
    for_columns(team, columns, [&](std::int64_t c) {
      Real slope = counts ? logit_slope(load(logits, first + c), top, factor) : Real(0);
      if (counts && c == column) slope -= scale;
      store(dlogits, first + c, slope);
    });
  }
};

template <class Stored>
struct Embedding {
  const std::int32_t* index;
  const Stored* table;
  std::int64_t rows, columns, first_row;
  Stored* y;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t i) const {
    const std::int64_t row = index[i] - first_row;
    const bool held = row >= 0 && row < rows;
    for_columns(team, columns, [&](std::int64_t c) {
      store(y, i * columns + c, held ? load(table, row * columns + c) : RealOf<Stored>(0));
    });
  }
};

// Rows that are looked up twice are added to by two teams at once, so the order of additions is
// not fixed on a GPU.
template <class Stored>
struct EmbeddingGradient {
  const std::int32_t* index;
  const Stored* dy;
  std::int64_t rows, columns, first_row;
  Stored* dtable;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t i) const {
    const std::int64_t row = index[i] - first_row;
    if (row < 0 || row >= rows) return;
    for_columns(team, columns,
                [&](std::int64_t c) { team.add(dtable + row * columns + c, dy[i * columns + c]); });
  }
};

}  // namespace meshwright::work

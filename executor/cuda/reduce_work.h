#pragma once

#include "executor/cuda/element_work.h"
#include "executor/exact_sum.h"

// What kernels do that add up over rows or over everything.
namespace meshwright::work {

// Work on columns: part(c, first, step) adds up rows first, first + step, ... of a column; the
// sums of all parts go to finish(c, sums).
template <class Real>
struct TwoSums {
  Real first = 0, second = 0;
  MESHWRIGHT_HD void add(const TwoSums& other) {
    first += other.first;
    second += other.second;
  }
};

// The gradient of gain and bias; no mean: RMS norm; no dbias: it has none.
template <class Stored, class Gradient>
struct NormWeightGradient {
  using Real = RealOf<Stored>;
  using Sums = TwoSums<Real>;
  RowsOf<const Stored> x;
  In<Real> mean, scale;
  RowsOf<const Stored> dy;
  std::int64_t rows;
  bool accumulate;
  Gradient *dgain, *dbias;

  MESHWRIGHT_HD Sums part(std::int64_t column, std::int64_t first, std::int64_t step) const {
    Sums sums;
    for (std::int64_t r = first; r < rows; r += step) {
      const RowMoments<Real> moments{mean ? load(mean, r) : Real(0), load(scale, r)};
      const Real gradient = load(dy[r], column);
      sums.add({gradient * normalized(load(x[r], column), moments), gradient});
    }
    return sums;
  }
  MESHWRIGHT_HD void put(Gradient* to, std::int64_t column, Real sum) const {
    store(to, column,
          static_cast<RealOf<Gradient>>(sum + (accumulate ? Real(load(to, column)) : Real(0))));
  }
  MESHWRIGHT_HD void finish(std::int64_t column, const Sums& sums) const {
    put(dgain, column, sums.first);
    if (dbias != nullptr) put(dbias, column, sums.second);
  }
};

// The sums of columns: the gradient of a bias.
template <class Stored, class Gradient>
struct ColumnSums {
  using Real = RealOf<Stored>;
  using Sums = TwoSums<Real>;
  RowsOf<const Stored> x;
  std::int64_t rows;
  bool accumulate;
  Gradient* sums;

  MESHWRIGHT_HD Sums part(std::int64_t column, std::int64_t first, std::int64_t step) const {
    Sums added;
    for (std::int64_t r = first; r < rows; r += step) added.first += load(x[r], column);
    return added;
  }
  MESHWRIGHT_HD void finish(std::int64_t column, const Sums& added) const {
    const Real before = accumulate ? Real(load(sums, column)) : Real(0);
    store(sums, column, static_cast<RealOf<Gradient>>(added.first + before));
  }
};

// Work on everything: each thread has a state, begins it, adds elements, and ends it; states are
// then added to one another, and the last one is finished.

struct LargestState {
  double largest = 0;
  bool numbers = true;
  MESHWRIGHT_HD void add(const LargestState& other) {
    largest = other.largest > largest ? other.largest : largest;
    numbers = numbers && other.numbers;
  }
};
// Elements of several vectors, one after the other.
template <class Stored>
struct Stretch {
  const Stored* start;
  std::int64_t first;  // among all
};
template <class Stored>
struct Stretches {
  const Stretch<Stored>* stretches;  // at least one
  std::int64_t count;
  MESHWRIGHT_HD RealOf<Stored> operator[](std::int64_t i) const {
    std::int64_t low = 0, high = count;  // the last that starts at i or before
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (stretches[middle].first <= i ? low : high) = middle;
    }
    return load(stretches[low].start, i - stretches[low].first);
  }
};

template <class Stored>
struct NormLargest {
  using State = LargestState;
  Stretches<Stored> gradients;
  double* largest;
  MESHWRIGHT_HD State begin() const { return {}; }
  MESHWRIGHT_HD void add(State& state, std::int64_t i) const {
    const double size = std::fabs(static_cast<double>(gradients[i]));
    state.add({size == size ? size : 0.0, size == size});
  }
  MESHWRIGHT_HD void end(State&) const {}
  MESHWRIGHT_HD void finish(const State& state) const {
    *largest = state.numbers ? state.largest : std::nan("");
  }
};

struct SquaresState {
  SquareScale scale;
  ExactSum sum;
  std::int64_t added = 0;
  MESHWRIGHT_HD void add(const SquaresState& other) { sum.add(other.sum); }
};
template <class Stored>
struct NormSums {
  using State = SquaresState;
  Stretches<Stored> gradients;
  const double* largest;
  double* sums;
  MESHWRIGHT_HD bool has_sum() const { return std::isfinite(*largest) && *largest != 0; }
  MESHWRIGHT_HD State begin() const {
    State state;
    if (has_sum()) state.scale = SquareScale::below_one(*largest);
    return state;
  }
  MESHWRIGHT_HD void add(State& state, std::int64_t i) const {
    if (!has_sum()) return;
    state.sum.add(state.scale.square(static_cast<double>(gradients[i])));
    if (++state.added % ExactSum::kBlock == 0) state.sum.carry();
  }
  MESHWRIGHT_HD void end(State& state) const { state.sum.carry(); }
  MESHWRIGHT_HD void finish(const State& state) const {
    sums[0] = has_sum() ? state.scale.unscaled(state.sum.coarse()) : *largest;
    sums[1] = has_sum() ? state.scale.unscaled(state.sum.fine()) : 0;
  }
};

struct LossState {
  double sum = 0;
  MESHWRIGHT_HD void add(const LossState& other) { sum += other.sum; }
};
template <class Real>
struct Loss {
  using State = LossState;
  In<std::int32_t> label;
  In<Real> largest, sums;
  const StepNumbers* numbers;
  double factor;  // of this loss in that of the step
  double* loss;
  MESHWRIGHT_HD State begin() const { return {}; }
  MESHWRIGHT_HD void add(State& state, std::int64_t row) const {
    if (label[row] < 0) return;
    state.sum += numbers->label_share * factor *
                 label_loss(static_cast<double>(load(sums, 2 * row)),
                            static_cast<double>(load(largest, row)),
                            static_cast<double>(load(sums, 2 * row + 1)));
  }
  MESHWRIGHT_HD void end(State&) const {}
  MESHWRIGHT_HD void finish(const State& state) const { *loss += state.sum; }
};

// One element of work.
struct ClipFactor {
  const double* sums;
  const StepNumbers* numbers;
  double* factor;
  std::int32_t* finite;  // null: not asked for
  MESHWRIGHT_HD void operator()(std::int64_t) const {
    const ClippedNorm clipped = clipped_norm(sums, numbers->clip, numbers->loss_scale);
    factor[0] = clipped.factor;
    factor[1] = clipped.norm;
    if (finite != nullptr) *finite = std::isfinite(clipped.norm) ? 1 : 0;
  }
};

}  // namespace meshwright::work

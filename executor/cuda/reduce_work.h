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
template <class Stored>
struct NormWeightGradient {
  using Real = RealOf<Stored>;
  using Sums = TwoSums<Real>;
  const Stored *x, *mean, *scale, *dy;
  std::int64_t rows, columns;
  bool accumulate;
  Stored *dgain, *dbias;

  MESHWRIGHT_HD Sums part(std::int64_t column, std::int64_t first, std::int64_t step) const {
    Sums sums;
    for (std::int64_t r = first; r < rows; r += step) {
      const RowMoments<Real> moments{mean == nullptr ? Real(0) : load(mean, r), load(scale, r)};
      const Real gradient = load(dy, r * columns + column);
      sums.add({gradient * normalized(load(x, r * columns + column), moments), gradient});
    }
    return sums;
  }
  MESHWRIGHT_HD void finish(std::int64_t column, const Sums& sums) const {
    store(dgain, column, sums.first + (accumulate ? load(dgain, column) : Real(0)));
    if (dbias == nullptr) return;
    store(dbias, column, sums.second + (accumulate ? load(dbias, column) : Real(0)));
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
template <class Stored>
struct NormLargest {
  using State = LargestState;
  const Stored* gradient;
  double* largest;
  MESHWRIGHT_HD State begin() const { return {}; }
  MESHWRIGHT_HD void add(State& state, std::int64_t i) const {
    const double size = std::fabs(static_cast<double>(load(gradient, i)));
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
  const Stored* gradient;
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
    state.sum.add(state.scale.square(static_cast<double>(load(gradient, i))));
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
template <class Stored>
struct Loss {
  using State = LossState;
  const std::int32_t* label;
  const Stored *largest, *sums;
  double scale;
  double* loss;
  MESHWRIGHT_HD State begin() const { return {}; }
  MESHWRIGHT_HD void add(State& state, std::int64_t row) const {
    if (label[row] < 0) return;
    state.sum += scale * label_loss(static_cast<double>(load(sums, 2 * row)),
                                    static_cast<double>(load(largest, row)),
                                    static_cast<double>(load(sums, 2 * row + 1)));
  }
  MESHWRIGHT_HD void end(State&) const {}
  MESHWRIGHT_HD void finish(const State& state) const { *loss += state.sum; }
};

// One element of work.
struct ClipFactor {
  const double* sums;
  double clip;  // infinite: gradients are not clipped
  double loss_scale;
  double* factor;
  std::int32_t* finite;  // null: not asked for
  MESHWRIGHT_HD void operator()(std::int64_t) const {
    const ClippedNorm clipped = clipped_norm(sums, clip, loss_scale);
    factor[0] = clipped.factor;
    factor[1] = clipped.norm;
    if (finite != nullptr) *finite = std::isfinite(clipped.norm) ? 1 : 0;
  }
};

}  // namespace meshwright::work

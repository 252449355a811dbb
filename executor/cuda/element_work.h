#pragma once

#include "executor/cuda/operand_view.h"
#include "executor/math.h"
#include "executor/random.h"
#include "executor/step_numbers.h"

// What kernels do with one element. Stored is what memory holds: double, float or a 16-bit number,
// which is computed with in float. These are run by a GPU's threads, and by tests on a processor.
namespace meshwright::work {

template <class Stored>
using In = ElementsOf<const Stored>;
template <class Stored>
using Out = ElementsOf<Stored>;

// The key of a kernel's random numbers in the step that runs.
struct StepKey {
  RandomKey run;
  const StepNumbers* numbers = nullptr;
  MESHWRIGHT_HD RandomKey now() const { return key_in_step(run, numbers->step); }
};

template <class Stored>
struct Zero {
  Out<Stored> y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const { store(y, i, 0); }
};

// Ordinary numbers between -1 and 1.
template <class Stored>
struct Fill {
  Stored* y;
  RandomKey key;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const double value = 2 * random_uniform(key, static_cast<std::uint64_t>(i)) - 1;
    store(y, i, static_cast<RealOf<Stored>>(value));
  }
};

struct FillIndices {
  std::int32_t* y;
  std::int64_t limit;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    y[i] = static_cast<std::int32_t>(i * 40503 % limit);
  }
};

template <class Stored, class Math>
struct Activation {
  In<Stored> x;
  Out<Stored> y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const { store(y, i, Math::value(load(x, i))); }
};

template <class Stored, class Math>
struct ActivationGradient {
  In<Stored> x, dy, addend;  // the addend may be none, here and below
  Out<Stored> dx;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const RealOf<Stored> slope = Math::slope(load(x, i)) * load(dy, i);
    store(dx, i, addend ? load(addend, i) + slope : slope);
  }
};

template <class Stored, class Math>
struct GatedActivation {
  In<Stored> gate, x;
  Out<Stored> y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    store(y, i, Math::value(load(gate, i)) * load(x, i));
  }
};

template <class Stored, class Math>
struct GatedActivationGradient {
  In<Stored> gate, x, dy;
  Out<Stored> dgate, dx;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const RealOf<Stored> g = load(gate, i), d = load(dy, i);
    store(dgate, i, Math::slope(g) * load(x, i) * d);
    store(dx, i, Math::value(g) * d);
  }
};

template <class Stored>
struct Scale {
  In<Stored> x, addend;
  RealOf<Stored> factor;
  Out<Stored> y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const RealOf<Stored> scaled = factor * load(x, i);
    store(y, i, addend ? load(addend, i) + scaled : scaled);
  }
};

template <class Stored>
struct Dropout {
  In<Stored> x, addend;
  StepKey key;
  double probability;
  GlobalPlaces places;
  Out<Stored> y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const auto factor =
        static_cast<RealOf<Stored>>(dropout_factor(key.now(), places[i], probability));
    const RealOf<Stored> kept = load(x, i) * factor;
    store(y, i, addend ? load(addend, i) + kept : kept);
  }
};

// An operand may be repeated: its walk then stays where it is along a dimension.
template <class Stored>
struct Add {
  In<Stored> a, b;
  Out<Stored> y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const { store(y, i, load(a, i) + load(b, i)); }
};

// One element of dx: the sum of what stands for it in dy, from left to right.
template <class Given, class Gradient>
struct SumGradient {
  In<Given> dy;  // where the first of them is
  Walk along;    // from there to the others
  std::int64_t count;
  ElementsOf<const Gradient> addend;
  bool accumulate;
  Out<Gradient> dx;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    using Real = RealOf<Given>;
    Real sum = addend ? static_cast<Real>(load(addend, i))
                      : (accumulate ? static_cast<Real>(load(dx, i)) : Real(0));
    const Given* const first = &dy[i];
    for (std::int64_t k = 0; k < count; ++k) sum += load(first, along(k));
    store(dx, i, static_cast<RealOf<Gradient>>(sum));
  }
};

// What is moved as it is: a number of so many bytes.
template <class Unit>
struct Copy {
  In<Unit> x;
  Out<Unit> y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const { y[i] = x[i]; }
};

// A bias for each column of rows of `columns`.
template <class Stored>
struct AddBias {
  In<Stored> bias;
  std::int64_t columns;
  Out<Stored> y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    store(y, i, load(y, i) + load(bias, i % columns));
  }
};

// One pair of entries that turn together, or one entry that stays; a row has `units` of them.
template <class Stored>
struct Rope {
  RowsOf<const Stored> x, addend;
  const RealOf<Stored>*cosines, *sines;
  RealOf<Stored> direction;
  RopePairs which;
  std::int64_t columns, rows_per_position, positions;
  RowsOf<Stored> y;

  MESHWRIGHT_HD std::int64_t units() const { return columns - which.pairs(); }
  MESHWRIGHT_HD void put(std::int64_t row, std::int64_t i, RealOf<Stored> value) const {
    store(y[row], i, addend ? load(addend[row], i) + value : value);
  }
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const std::int64_t half = which.pairs(), row = i / units(), unit = i % units();
    const Stored* const from = x[row];
    if (unit >= half) {
      const std::int64_t at = which.still(unit - half);
      return put(row, at, load(from, at));
    }
    const std::int64_t angle = row / rows_per_position % positions * half + unit;
    const std::int64_t one = which.one(unit), other = which.other(unit);
    const auto pair =
        turned(load(from, one), load(from, other), cosines[angle], direction * sines[angle]);
    put(row, one, pair.first);
    put(row, other, pair.second);
  }
};

// State is what moments and, if there is one, the fp32 copy of the weights are stored as.
template <class Stored, class Gradient, class State>
struct AdamW {
  const Gradient* gradient;
  const double* factor;
  Stored* weight;
  State *m, *v, *master;  // no master: the weights are all there is
  const AdamWFactors* factors;
  const std::int32_t* predicate;  // where it is 0, all stays as it is; null: nobody asks
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    using Real = RealOf<State>;
    if (predicate != nullptr && *predicate == 0) return;
    AdamWFactors scaled = *factors;
    scaled.gradient = factor[0];
    Real w = master == nullptr ? static_cast<Real>(load(weight, i)) : load(master, i);
    Real m_i = load(m, i), v_i = load(v, i);
    adamw_element(scaled, static_cast<Real>(load(gradient, i)), w, m_i, v_i);
    store(m, i, m_i);
    store(v, i, v_i);
    if (master != nullptr) store(master, i, w);
    store(weight, i, static_cast<RealOf<Stored>>(w));
  }
};

// A weight that moves by a fixed step against the sign of its gradient.
template <class Stored, class Gradient, class State>
struct SignStep {
  const Gradient* gradient;
  Stored* weight;
  State* master;  // none: the weights are all there is
  double rate;
  const std::int32_t* predicate;  // where it is 0, all stays as it is; null: nobody asks
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    using Real = RealOf<State>;
    if (predicate != nullptr && *predicate == 0) return;
    const Real before = master == nullptr ? static_cast<Real>(load(weight, i)) : load(master, i);
    const Real w = moved_by_sign(before, static_cast<Real>(load(gradient, i)), rate);
    if (master != nullptr) store(master, i, w);
    store(weight, i, static_cast<RealOf<Stored>>(w));
  }
};

}  // namespace meshwright::work

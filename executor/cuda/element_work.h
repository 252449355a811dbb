#pragma once

#include <cstdint>
#include <type_traits>

#include "executor/math.h"
#include "executor/random.h"

// What kernels do with one element. Stored is what memory holds: double, float or a 16-bit number,
// which is computed with in float. These are run by a GPU's threads, and by tests on a processor.
namespace meshwright::work {

template <class Stored>
using RealOf = std::conditional_t<std::is_same_v<Stored, double>, double, float>;

template <class Stored>
MESHWRIGHT_HD inline RealOf<Stored> load(const Stored* from, std::int64_t i) {
  return static_cast<RealOf<Stored>>(from[i]);
}
template <class Stored>
MESHWRIGHT_HD inline void store(Stored* to, std::int64_t i, RealOf<Stored> value) {
  to[i] = static_cast<Stored>(value);
}

template <class Stored>
struct Zero {
  Stored* y;
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
  const Stored* x;
  Stored* y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const { store(y, i, Math::value(load(x, i))); }
};

template <class Stored, class Math>
struct ActivationGradient {
  const Stored *x, *dy, *addend;  // the addend may be null, here and below
  Stored* dx;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const RealOf<Stored> slope = Math::slope(load(x, i)) * load(dy, i);
    store(dx, i, addend == nullptr ? slope : load(addend, i) + slope);
  }
};

template <class Stored, class Math>
struct GatedActivation {
  const Stored *gate, *x;
  Stored* y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    store(y, i, Math::value(load(gate, i)) * load(x, i));
  }
};

template <class Stored, class Math>
struct GatedActivationGradient {
  const Stored *gate, *x, *dy;
  Stored *dgate, *dx;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const RealOf<Stored> g = load(gate, i), d = load(dy, i);
    store(dgate, i, Math::slope(g) * load(x, i) * d);
    store(dx, i, Math::value(g) * d);
  }
};

template <class Stored>
struct Scale {
  const Stored *x, *addend;
  RealOf<Stored> factor;
  Stored* y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const RealOf<Stored> scaled = factor * load(x, i);
    store(y, i, addend == nullptr ? scaled : load(addend, i) + scaled);
  }
};

// Of a tensor that is whole on the device, so that an element's place is its number.
template <class Stored>
struct Dropout {
  const Stored *x, *addend;
  RandomKey key;
  double probability;
  Stored* y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const auto factor = static_cast<RealOf<Stored>>(
        dropout_factor(key, static_cast<std::uint64_t>(i), probability));
    const RealOf<Stored> kept = load(x, i) * factor;
    store(y, i, addend == nullptr ? kept : load(addend, i) + kept);
  }
};

// The second operand is repeated every `period` elements.
template <class Stored>
struct Add {
  const Stored *a, *b;
  std::int64_t period;
  Stored* y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    store(y, i, load(a, i) + load(b, i % period));
  }
};

template <class Stored>
struct Copy {
  const Stored* x;
  Stored* y;
  MESHWRIGHT_HD void operator()(std::int64_t i) const { y[i] = x[i]; }
};

// One pair of entries that turn together, or one entry that stays; a row has `units` of them.
template <class Stored>
struct Rope {
  const Stored *x, *addend;
  const RealOf<Stored>*cosines, *sines;
  RealOf<Stored> direction;
  RopePairs which;
  std::int64_t columns, rows_per_position, positions;
  Stored* y;

  MESHWRIGHT_HD std::int64_t units() const { return columns - which.pairs(); }
  MESHWRIGHT_HD void put(std::int64_t i, RealOf<Stored> value) const {
    store(y, i, addend == nullptr ? value : load(addend, i) + value);
  }
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const std::int64_t half = which.pairs(), row = i / units(), unit = i % units();
    const std::int64_t start = row * columns;
    if (unit >= half) {
      const std::int64_t at = start + which.still(unit - half);
      return put(at, load(x, at));
    }
    const std::int64_t angle = row / rows_per_position % positions * half + unit;
    const std::int64_t one = start + which.one(unit), other = start + which.other(unit);
    const auto pair =
        turned(load(x, one), load(x, other), cosines[angle], direction * sines[angle]);
    put(one, pair.first);
    put(other, pair.second);
  }
};

// State is what moments and, if there is one, the fp32 copy of the weights are stored as.
template <class Stored, class State>
struct AdamW {
  const Stored* gradient;
  const double* factor;
  Stored* weight;
  State *m, *v, *master;  // no master: the weights are all there is
  AdamWFactors factors;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    using Real = RealOf<State>;
    AdamWFactors scaled = factors;
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

}  // namespace meshwright::work

#pragma once

#include <limits>

#include "executor/cuda/row_work.h"

// Attention without a library: in every precision, of any part of a sequence, and beside keys that
// were seen before. A team has one query, or one key, and goes over all that it meets in tiles of
// as many as the team has members: tile(which) is memory that members share, and meet() lets them
// go on when all are there. Scores are computed twice in the forward, once for their sum and once
// for what they share out, and no more than a tile of them exists.
namespace meshwright::work {

// One of q, k, v, y or its gradient: [batch, sequence, heads, size].
template <class Stored>
struct HeadsOf {
  Stored* data = nullptr;
  std::int64_t batch_stride = 0, place_stride = 0, head_stride = 0;
  std::int64_t heads = 1, places = 0, size = 0;
  MESHWRIGHT_HD Stored* row(std::int64_t batch, std::int64_t head, std::int64_t place) const {
    return data + batch * batch_stride + head * head_stride + place * place_stride;
  }
};

// [batch, heads, sequence].
template <class Real>
struct LogSumsOf {
  Real* data = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0, place_stride = 0;
  MESHWRIGHT_HD Real& at(std::int64_t batch, std::int64_t head, std::int64_t place) const {
    return data[batch * batch_stride + head * head_stride + place * place_stride];
  }
};

// Which query sees which key, what ALiBi adds to their score and what dropout does to it: by their
// places in the whole tensors.
struct AttentionRules {
  bool causal = true, alibi = false, has_window = false;
  std::int64_t window = 0;
  double scale = 1, dropout = 0;
  StepKey key;
  std::int64_t batch_row = 0, first_head = 0, all_heads = 1;
  PlaceRanges queries, keys;

  MESHWRIGHT_HD bool sees(std::int64_t query, std::int64_t key_place) const {
    if (causal && key_place > query) return false;
    return !has_window || key_place > query - window;
  }
  // No later key of the device's own is seen.
  MESHWRIGHT_HD bool ends(std::int64_t query, std::int64_t key_place) const {
    return causal && key_place > query;
  }
  MESHWRIGHT_HD double bias(std::int64_t head, std::int64_t query, std::int64_t key_place) const {
    if (!alibi) return 0;
    return alibi_slope(first_head + head, all_heads) * static_cast<double>(key_place - query);
  }
  MESHWRIGHT_HD double factor(std::int64_t batch, std::int64_t head, std::int64_t query,
                              std::int64_t key_place) const {
    if (!(dropout > 0)) return 1;
    const std::int64_t row =
        ((batch_row + batch) * all_heads + first_head + head) * queries.whole + query;
    return dropout_factor(key.now(), static_cast<std::uint64_t>(row * keys.whole + key_place),
                          dropout);
  }
};

template <class Real, class A, class B>
MESHWRIGHT_HD inline Real dot(const A* a, const B* b, std::int64_t size) {
  Real sum = 0;
  for (std::int64_t c = 0; c < size; ++c) {
    sum += static_cast<Real>(load(a, c)) * static_cast<Real>(load(b, c));
  }
  return sum;
}

// What all of attention's work has.
template <class Stored>
struct AttentionOperands {
  using Real = RealOf<Stored>;
  HeadsOf<const Stored> q, k, v;
  AttentionRules rules;
  bool accumulate = false;

  MESHWRIGHT_HD std::int64_t key_head(std::int64_t head) const {
    return head / (q.heads / k.heads);
  }
  MESHWRIGHT_HD Real score(std::int64_t batch, std::int64_t head, std::int64_t i,
                           std::int64_t j) const {
    const Real product = dot<Real>(q.row(batch, head, i), k.row(batch, key_head(head), j), q.size);
    return static_cast<Real>(rules.scale) * product +
           static_cast<Real>(rules.bias(head, rules.queries[i], rules.keys[j]));
  }
};

// The query of a row of work.
struct QueryOf {
  std::int64_t batch, head, place;
  MESHWRIGHT_HD QueryOf(std::int64_t row, std::int64_t heads, std::int64_t places)
      : batch(row / places / heads), head(row / places % heads), place(row % places) {}
};

template <class Stored>
struct AttentionForward {
  using Real = RealOf<Stored>;
  AttentionOperands<Stored> in;
  HeadsOf<Stored> y;
  LogSumsOf<Real> lse;
  std::int64_t columns;  // keys, which a team's members share

  static constexpr Real kNothing = -std::numeric_limits<Real>::infinity();

  // The logarithm of the sum of the exponentials of all keys that are seen here.
  template <class Team>
  MESHWRIGHT_HD Real log_sum(Team& team, const QueryOf& at, std::int64_t place) const {
    Real top = kNothing, sum = 0;
    for (std::int64_t j = team.rank(); j < columns; j += team.size()) {
      const std::int64_t key = in.rules.keys[j];
      if (in.rules.ends(place, key)) break;
      if (!in.rules.sees(place, key)) continue;
      const Real score = in.score(at.batch, at.head, at.place, j);
      if (score > top) {
        sum *= std::exp(top - score);
        top = score;
      }
      sum += std::exp(score - top);
    }
    const Real all_top = team.largest(top);
    const Real all = team.sum(top == kNothing ? Real(0) : sum * std::exp(top - all_top));
    return all > 0 ? all_top + std::log(all) : kNothing;
  }

  MESHWRIGHT_HD static Real joined(Real a, Real b) {
    const Real top = a > b ? a : b;
    return top == kNothing ? kNothing : top + std::log(std::exp(a - top) + std::exp(b - top));
  }

  // The key's share, after dropout.
  MESHWRIGHT_HD Real share(const QueryOf& at, std::int64_t place, std::int64_t j,
                           Real whole) const {
    if (j >= columns || !in.rules.sees(place, in.rules.keys[j])) return 0;
    return std::exp(in.score(at.batch, at.head, at.place, j) - whole) *
           static_cast<Real>(in.rules.factor(at.batch, at.head, place, in.rules.keys[j]));
  }

  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const QueryOf at(row, in.q.heads, in.q.places);
    const std::int64_t place = in.rules.queries[at.place], kv = in.key_head(at.head);
    Real& known = lse.at(at.batch, at.head, at.place);
    const Real before = in.accumulate ? known : kNothing;
    const Real whole = joined(before, log_sum(team, at, place));
    const Real kept = before == kNothing ? Real(0) : std::exp(before - whole);
    Real* const tile = team.template tile<Real>(0);
    Stored* const to = y.row(at.batch, at.head, at.place);
    for (std::int64_t first = 0; first < in.v.size; first += team.size()) {
      const std::int64_t c = first + team.rank();
      Real sum = c < in.v.size && kept > 0 ? kept * load(to, c) : Real(0);
      for (std::int64_t start = 0; start < columns; start += team.size()) {
        if (in.rules.ends(place, in.rules.keys[start])) break;
        team.meet();
        tile[team.rank()] = share(at, place, start + team.rank(), whole);
        team.meet();
        for (std::int64_t t = 0; c < in.v.size && t < team.size() && start + t < columns; ++t) {
          sum += tile[t] * load(in.v.row(at.batch, kv, start + t), c);
        }
      }
      if (c < in.v.size) store(to, c, sum);
    }
    team.meet();  // all have read what was known
    if (team.rank() == 0) known = whole;
  }
};

// What gradients start from: with P the softmax, D dropout's factors and s = sum(y * dy), the share
// P D and the slope P * (D * (dy v^T) - s) of a score (Dao et al. 2022, algorithm 4).
template <class Stored>
struct AttentionSlopes {
  using Real = RealOf<Stored>;
  AttentionOperands<Stored> in;
  HeadsOf<const Stored> y, dy;
  LogSumsOf<const Real> lse;

  struct Slope {
    Real share, slope;
  };
  MESHWRIGHT_HD Slope at(std::int64_t batch, std::int64_t head, std::int64_t i, std::int64_t j,
                         Real shared) const {
    const std::int64_t query = in.rules.queries[i], key = in.rules.keys[j];
    if (!in.rules.sees(query, key)) return {0, 0};
    const Real p = std::exp(in.score(batch, head, i, j) - lse.at(batch, head, i));
    const Real factor = static_cast<Real>(in.rules.factor(batch, head, query, key));
    const Real product =
        dot<Real>(dy.row(batch, head, i), in.v.row(batch, in.key_head(head), j), in.v.size);
    return {p * factor, p * (factor * product - shared)};
  }
  MESHWRIGHT_HD Real shared(std::int64_t batch, std::int64_t head, std::int64_t i) const {
    return dot<Real>(y.row(batch, head, i), dy.row(batch, head, i), in.v.size);
  }
};

template <class Stored>
struct AttentionQueryGradient {
  using Real = RealOf<Stored>;
  AttentionSlopes<Stored> slopes;
  HeadsOf<Stored> dq;
  std::int64_t columns;  // keys

  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const AttentionOperands<Stored>& in = slopes.in;
    const QueryOf at(row, in.q.heads, in.q.places);
    const std::int64_t place = in.rules.queries[at.place], kv = in.key_head(at.head);
    const Real shared = slopes.shared(at.batch, at.head, at.place);
    Real* const tile = team.template tile<Real>(0);
    Stored* const to = dq.row(at.batch, at.head, at.place);
    for (std::int64_t first = 0; first < dq.size; first += team.size()) {
      const std::int64_t c = first + team.rank();
      Real sum = 0;
      for (std::int64_t start = 0; start < columns; start += team.size()) {
        if (in.rules.ends(place, in.rules.keys[start])) break;
        const std::int64_t j = start + team.rank();
        team.meet();
        tile[team.rank()] =
            j < columns ? slopes.at(at.batch, at.head, at.place, j, shared).slope : Real(0);
        team.meet();
        for (std::int64_t t = 0; c < dq.size && t < team.size() && start + t < columns; ++t) {
          sum += tile[t] * load(in.k.row(at.batch, kv, start + t), c);
        }
      }
      if (c >= dq.size) continue;
      const Real before = in.accumulate ? load(to, c) : Real(0);
      store(to, c, before + static_cast<Real>(in.rules.scale) * sum);
    }
  }
};

// A row of work is a key of one head, which several heads of queries may share.
template <class Stored>
struct AttentionKeyGradient {
  using Real = RealOf<Stored>;
  AttentionSlopes<Stored> slopes;
  HeadsOf<Stored> dk, dv;
  std::int64_t columns;  // queries

  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const AttentionOperands<Stored>& in = slopes.in;
    const QueryOf at(row, in.k.heads, in.k.places);
    const std::int64_t size = dk.size > dv.size ? dk.size : dv.size;
    for (std::int64_t first = 0; first < size; first += team.size()) {
      add_columns(team, at, first + team.rank());
    }
  }

  template <class Team>
  MESHWRIGHT_HD void add_columns(Team& team, const QueryOf& at, std::int64_t c) const {
    const AttentionOperands<Stored>& in = slopes.in;
    const std::int64_t group = in.q.heads / in.k.heads;
    Real *const shares = team.template tile<Real>(0), *const inner = team.template tile<Real>(1);
    Real key_sum = 0, value_sum = 0;
    for (std::int64_t head = at.head * group; head < (at.head + 1) * group; ++head) {
      for (std::int64_t start = 0; start < columns; start += team.size()) {
        const std::int64_t i = start + team.rank();
        typename AttentionSlopes<Stored>::Slope slope{0, 0};
        if (i < columns && in.rules.sees(in.rules.queries[i], in.rules.keys[at.place])) {
          slope = slopes.at(at.batch, head, i, at.place, slopes.shared(at.batch, head, i));
        }
        team.meet();
        shares[team.rank()] = slope.share;
        inner[team.rank()] = slope.slope;
        team.meet();
        for (std::int64_t t = 0; t < team.size() && start + t < columns; ++t) {
          if (c < dv.size)
            value_sum += shares[t] * load(slopes.dy.row(at.batch, head, start + t), c);
          if (c < dk.size) key_sum += inner[t] * load(in.q.row(at.batch, head, start + t), c);
        }
      }
    }
    put(dk, at, c, static_cast<Real>(in.rules.scale) * key_sum);
    put(dv, at, c, value_sum);
  }

  MESHWRIGHT_HD void put(const HeadsOf<Stored>& to, const QueryOf& at, std::int64_t c,
                         Real sum) const {
    if (c >= to.size) return;
    Stored* const row = to.row(at.batch, at.head, at.place);
    store(row, c, (slopes.in.accumulate ? load(row, c) : Real(0)) + sum);
  }
};

}  // namespace meshwright::work

#pragma once

#include "executor/cuda/row_work.h"

// What kernels do with tokens that go to experts, but their products.
namespace meshwright::work {

// How a token chooses its experts (executor/cpu/router.cpp says the same in a processor's way).
struct RouterRules {
  static constexpr std::int64_t kMostChoices = 32, kMostGroups = 64;
  std::int64_t experts = 1, choices = 1, groups = 1, chosen_groups = 1;
  bool sigmoid = false, renormalize = false;
  double factor = 1;
};

// The scores of one token.
template <class Stored>
struct TokenScores {
  using Real = RealOf<Stored>;
  const Stored* logits;
  bool sigmoid;
  Real top = 0, sum = 1;

  MESHWRIGHT_HD TokenScores(const Stored* row, const RouterRules& rules)
      : logits(row), sigmoid(rules.sigmoid) {
    if (sigmoid) return;
    top = load(row, 0);
    for (std::int64_t e = 1; e < rules.experts; ++e) top = load(row, e) > top ? load(row, e) : top;
    sum = 0;
    for (std::int64_t e = 0; e < rules.experts; ++e) sum += std::exp(load(row, e) - top);
  }
  MESHWRIGHT_HD Real operator[](std::int64_t e) const {
    if (sigmoid) return 1 / (1 + std::exp(-load(logits, e)));
    return std::exp(load(logits, e) - top) / sum;
  }
};

template <class Stored>
struct Router {
  using Real = RealOf<Stored>;
  RowsOf<const Stored> logits;
  RouterRules rules;
  RowsOf<Stored> share;
  RowsOf<std::int32_t> expert;

  MESHWRIGHT_HD Real group_score(const TokenScores<Stored>& scores, std::int64_t group) const {
    const std::int64_t size = rules.experts / rules.groups;
    Real best = 0, second = 0;
    for (std::int64_t e = group * size; e < (group + 1) * size; ++e) {
      const Real score = scores[e];
      if (score > best) {
        second = best;
        best = score;
      } else if (score > second) {
        second = score;
      }
    }
    return rules.sigmoid ? best + second : best;
  }
  // A bit for each group that experts are taken from.
  MESHWRIGHT_HD std::uint64_t open_groups(const TokenScores<Stored>& scores) const {
    if (rules.groups <= 1) return 1;
    std::uint64_t open = 0;
    for (std::int64_t n = 0; n < rules.chosen_groups; ++n) {
      std::int64_t best = -1;
      Real best_score = 0;
      for (std::int64_t g = 0; g < rules.groups; ++g) {
        if ((open >> g & 1) != 0) continue;
        const Real score = group_score(scores, g);
        if (best >= 0 && !(score > best_score)) continue;
        best = g;
        best_score = score;
      }
      open |= std::uint64_t{1} << best;
    }
    return open;
  }
  MESHWRIGHT_HD void operator()(std::int64_t row) const {
    const TokenScores<Stored> scores(logits[row], rules);
    const std::uint64_t open = open_groups(scores);
    const std::int64_t group_size = rules.experts / rules.groups;
    std::int64_t chosen[RouterRules::kMostChoices];
    Real sum = rules.renormalize ? Real(0) : Real(1);
    for (std::int64_t n = 0; n < rules.choices; ++n) {
      std::int64_t best = -1;
      Real best_score = 0;
      for (std::int64_t e = 0; e < rules.experts; ++e) {
        bool taken = false;
        for (std::int64_t m = 0; m < n; ++m) taken = taken || chosen[m] == e;
        if (taken) continue;
        const Real score = (open >> (e / group_size) & 1) != 0 ? scores[e] : Real(-1);
        if (best >= 0 && !(score > best_score)) continue;
        best = e;
        best_score = score;
      }
      chosen[n] = best;
      if (rules.renormalize) sum += scores[best];
    }
    for (std::int64_t n = 0; n < rules.choices; ++n) {
      store(share[row], n, static_cast<Real>(rules.factor) * scores[chosen[n]] / sum);
      expert[row][n] = static_cast<std::int32_t>(chosen[n]);
    }
  }
};

// One expert of one sequence: those that come after its capacity are turned away.
struct RouterCapacity {
  RowsOf<std::int32_t> expert;
  std::int64_t experts, sequence, choices, capacity;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const std::int64_t first = i / experts * sequence;
    const auto e = static_cast<std::int32_t>(i % experts);
    std::int64_t taken = 0;
    for (std::int64_t row = first; row < first + sequence; ++row) {
      for (std::int64_t n = 0; n < choices; ++n) {
        if (expert[row][n] == e && taken++ >= capacity) expert[row][n] = ~e;
      }
    }
  }
};

// A team shares the experts of a token.
template <class Stored>
struct RouterGradient {
  using Real = RealOf<Stored>;
  RowsOf<const Stored> logits;
  RowsOf<const std::int32_t> expert;
  RowsOf<const Stored> dshare, addend;
  RouterRules rules;
  std::int64_t columns;  // experts
  RowsOf<Stored> dlogits;

  MESHWRIGHT_HD std::int64_t chosen(std::int64_t row, std::int64_t n) const {
    const std::int32_t e = expert[row][n];
    return e < 0 ? ~e : e;
  }
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const TokenScores<Stored> scores(logits[row], rules);
    Real sum = 0, weighed = 0;
    for (std::int64_t n = 0; n < rules.choices; ++n) {
      sum += scores[chosen(row, n)];
      weighed += load(dshare[row], n) * scores[chosen(row, n)];
    }
    const auto slope_of = [&](std::int64_t n) {
      const Real d = load(dshare[row], n);
      return static_cast<Real>(rules.factor) * (rules.renormalize ? (d - weighed / sum) / sum : d);
    };
    Real mean = 0;
    for (std::int64_t n = 0; n < rules.choices; ++n) mean += scores[chosen(row, n)] * slope_of(n);
    for_columns(team, columns, [&](std::int64_t e) {
      Real dscore = 0;
      for (std::int64_t n = 0; n < rules.choices; ++n) {
        if (chosen(row, n) == e) dscore = slope_of(n);
      }
      const Real score = scores[e];
      const Real slope = rules.sigmoid ? score * (1 - score) * dscore : score * (dscore - mean);
      store(dlogits[row], e, (addend ? load(addend[row], e) : Real(0)) + slope);
    });
  }
};

// How many of `count` choices are an expert's, a row of work.
struct ExpertCounts {
  In<std::int32_t> expert;
  std::int64_t columns;  // choices
  Out<std::int32_t> counts;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t e) const {
    double own = 0;
    for_columns(team, columns, [&](std::int64_t i) { own += expert[i] == e ? 1 : 0; });
    const double all = team.sum(own);
    if (team.rank() == 0) counts[e] = static_cast<std::int32_t>(all);
  }
};

// Where the choices of an expert go, in order; those of none go nowhere. Each member has choices
// that follow each other.
struct ExpertPlaces {
  In<std::int32_t> expert, counts;
  std::int64_t columns;  // choices
  Out<std::int32_t> place;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t e) const {
    const std::int64_t each = (columns + team.size() - 1) / team.size();
    const std::int64_t first = team.rank() * each;
    const std::int64_t end = first + each < columns ? first + each : columns;
    double own = 0;
    for (std::int64_t i = first; i < end; ++i) own += expert[i] == e ? 1 : 0;
    double* const tile = team.template tile<double>(0);
    team.meet();
    tile[team.rank()] = own;
    team.meet();
    std::int64_t next = 0;
    for (std::int64_t lower = 0; lower < e; ++lower) next += counts[lower];
    for (std::int64_t rank = 0; rank < team.rank(); ++rank) {
      next += static_cast<std::int64_t>(tile[rank]);
    }
    for (std::int64_t i = first; i < end; ++i) {
      if (expert[i] == e) place[i] = static_cast<std::int32_t>(next++);
      if (e == 0 && expert[i] < 0) place[i] = -1;
    }
  }
};

template <class Stored>
struct Dispatch {
  RowsOf<const Stored> x;
  RowsOf<const std::int32_t> place;
  std::int64_t choices, columns;
  RowsOf<Stored> y;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored* const from = x[row];
    for (std::int64_t n = 0; n < choices; ++n) {
      if (place[row][n] < 0) continue;
      Stored* const to = y[place[row][n]];
      for_columns(team, columns, [&](std::int64_t c) { to[c] = from[c]; });
    }
  }
};

template <class Stored>
struct DispatchGradient {
  RowsOf<const std::int32_t> place;
  RowsOf<const Stored> dy, addend;
  std::int64_t choices, columns;
  RowsOf<Stored> dx;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    for_columns(team, columns, [&](std::int64_t c) {
      RealOf<Stored> sum = addend ? load(addend[row], c) : RealOf<Stored>(0);
      for (std::int64_t n = 0; n < choices; ++n) {
        if (place[row][n] >= 0) sum += load(dy[place[row][n]], c);
      }
      store(dx[row], c, sum);
    });
  }
};

template <class Stored>
struct Combine {
  RowsOf<const Stored> x, share;
  RowsOf<const std::int32_t> place;
  std::int64_t choices, columns;
  RowsOf<Stored> y;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    for_columns(team, columns, [&](std::int64_t c) {
      RealOf<Stored> sum = 0;
      for (std::int64_t n = 0; n < choices; ++n) {
        if (place[row][n] >= 0) sum += load(share[row], n) * load(x[place[row][n]], c);
      }
      store(y[row], c, sum);
    });
  }
};

template <class Stored>
struct CombineGradient {
  using Real = RealOf<Stored>;
  RowsOf<const Stored> x, share;
  RowsOf<const std::int32_t> place;
  RowsOf<const Stored> dy;
  std::int64_t choices, columns;
  RowsOf<Stored> dx, dshare;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const Stored* const gradient = dy[row];
    for (std::int64_t n = 0; n < choices; ++n) {
      Real own = 0;
      if (place[row][n] >= 0) {
        const Stored* const from = x[place[row][n]];
        Stored* const to = dx[place[row][n]];
        for_columns(team, columns, [&](std::int64_t c) {
          own += load(from, c) * load(gradient, c);
          store(to, c, load(share[row], n) * load(gradient, c));
        });
      }
      const Real sum = team.sum(own);
      if (team.rank() == 0) store(dshare[row], n, sum);
    }
  }
};

// A row by expert, then sender, and where it is by sender, then expert.
template <class Stored>
struct SortRows {
  RowsOf<const Stored> x;
  In<std::int32_t> counts;  // [senders, experts]
  std::int64_t senders, experts, columns;
  bool back;  // from the order by expert to the one by sender
  RowsOf<Stored> y;
  MESHWRIGHT_HD std::int64_t by_sender(std::int64_t row) const {
    for (std::int64_t e = 0; e < experts; ++e) {
      std::int64_t first = 0;
      for (std::int64_t s = 0; s < senders; ++s) {
        for (std::int64_t other = 0; other < experts; ++other) {
          const std::int64_t rows = counts[s * experts + other];
          if (other == e && row < rows) return first + row;
          if (other == e) row -= rows;
          first += rows;
        }
      }
    }
    return row;
  }
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const std::int64_t other = by_sender(row);
    const Stored* const from = x[back ? row : other];
    Stored* const to = y[back ? other : row];
    for_columns(team, columns, [&](std::int64_t c) { to[c] = from[c]; });
  }
};

}  // namespace meshwright::work

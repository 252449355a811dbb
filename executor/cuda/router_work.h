#pragma once

#include "executor/cuda/reduce_work.h"
#include "executor/cuda/row_work.h"
#include "executor/router_math.h"

// How tokens choose their experts, and what an uneven choice costs.
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
  // Of all experts.
  MESHWRIGHT_HD Real whole(std::int64_t experts) const {
    if (!sigmoid) return 1;
    Real added = 0;
    for (std::int64_t e = 0; e < experts; ++e) added += (*this)[e];
    return added;
  }
};

template <class Stored>
struct Router {
  using Real = RealOf<Stored>;
  static constexpr Real kNothing = -std::numeric_limits<Real>::infinity();
  RowsOf<const Stored> logits;
  const Stored* bias;  // null: none is added to what experts are chosen by
  RouterRules rules;
  RowsOf<Stored> share;
  RowsOf<std::int32_t> expert;

  MESHWRIGHT_HD Real judged(const TokenScores<Stored>& scores, std::int64_t e) const {
    return bias == nullptr ? scores[e] : scores[e] + load(bias, e);
  }
  MESHWRIGHT_HD Real group_score(const TokenScores<Stored>& scores, std::int64_t group) const {
    const std::int64_t size = rules.experts / rules.groups;
    Real best = kNothing, second = kNothing;
    for (std::int64_t e = group * size; e < (group + 1) * size; ++e) {
      const Real score = judged(scores, e);
      if (score > best) {
        second = best;
        best = score;
      } else if (score > second) {
        second = score;
      }
    }
    return rules.sigmoid && size > 1 ? best + second : best;
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
        const bool is_open = (open >> (e / group_size) & 1) != 0;
        const Real score = is_open ? judged(scores, e) : kNothing;
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

MESHWRIGHT_HD inline bool is_choice_of(std::int32_t choice, std::int64_t e) {
  return chosen_expert(choice) == static_cast<std::size_t>(e);
}

// How many of a token's choices are an expert's.
MESHWRIGHT_HD inline std::int64_t choices_of(std::int64_t e, const std::int32_t* choices,
                                             std::int64_t count) {
  std::int64_t own = 0;
  for (std::int64_t n = 0; n < count; ++n) own += is_choice_of(choices[n], e) ? 1 : 0;
  return own;
}

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

// The choices of one expert in one of the equal pieces of what a device has of a sequence.
struct RouterCounts {
  RowsOf<const std::int32_t> expert;
  std::int64_t experts, tokens, choices;  // tokens of a piece
  RowsOf<std::int32_t> counts;
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const std::int64_t piece = i / experts, e = i % experts;
    std::int64_t count = 0;
    for (std::int64_t row = piece * tokens; row < (piece + 1) * tokens; ++row) {
      count += choices_of(e, expert[row], choices);
    }
    counts[piece][e] = static_cast<std::int32_t>(count);
  }
};

// One expert of what a device has of one sequence: `counts` are those of all pieces of the whole.
struct RouterRoom {
  RowsOf<const std::int32_t> expert, counts;
  std::int64_t experts, sequence, choices, pieces, capacity;
  PlaceRanges places;  // of the device's tokens
  RowsOf<std::int32_t> left;
  MESHWRIGHT_HD std::int64_t taken_before(std::int64_t first, std::int64_t end,
                                          std::int64_t e) const {
    std::int64_t taken = 0;
    for (std::int64_t piece = first; piece < end; ++piece) taken += counts[piece][e];
    return taken;
  }
  MESHWRIGHT_HD void operator()(std::int64_t i) const {
    const std::int64_t b = i / experts, e = i % experts, tokens = places.whole / pieces;
    std::int64_t taken = 0;
    for (std::int64_t t = 0; t < sequence; ++t) {
      const std::int64_t position = places[t], row = b * sequence + t;
      if (position % tokens == 0) {
        taken = taken_before(b * pieces, b * pieces + position / tokens, e);
      }
      for (std::int64_t n = 0; n < choices; ++n) {
        const std::int32_t choice = expert[row][n];
        if (is_choice_of(choice, e)) left[row][n] = taken++ < capacity ? choice : ~choice;
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
    return static_cast<std::int64_t>(chosen_expert(expert[row][n]));
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

// Of the bias of one expert: by how much it is chosen more often than its equal share.
template <class Gradient>
struct RouterBiasGradient {
  using Sums = TwoSums<double>;
  RowsOf<const std::int32_t> expert;
  std::int64_t rows, choices, experts;
  double unit;
  bool accumulate;
  Gradient* dbias;

  MESHWRIGHT_HD Sums part(std::int64_t e, std::int64_t first, std::int64_t step) const {
    Sums sums;
    for (std::int64_t row = first; row < rows; row += step) {
      sums.first += static_cast<double>(choices_of(e, expert[row], choices));
    }
    return sums;
  }
  MESHWRIGHT_HD void finish(std::int64_t e, const Sums& sums) const {
    using Real = RealOf<Gradient>;
    const double excess =
        sums.first * static_cast<double>(experts) - static_cast<double>(rows * choices);
    const Real before = accumulate ? load(dbias, e) : Real(0);
    store(dbias, e, before + static_cast<Real>(excess * unit));
  }
};

// The loss of an uneven choice (executor/cpu/balance.cpp says the same in a processor's way): of
// every sequence the choices of each expert, then the sums of its shares of the tokens' scores.
// Columns of work are the experts of sequences.
template <class Stored>
struct BalanceSums {
  using Sums = TwoSums<double>;
  RowsOf<const Stored> logits;
  RowsOf<const std::int32_t> expert;
  RouterRules rules;
  std::int64_t sequence;
  double* sums;

  MESHWRIGHT_HD Sums part(std::int64_t column, std::int64_t first, std::int64_t step) const {
    const std::int64_t b = column / rules.experts, e = column % rules.experts;
    Sums added;
    for (std::int64_t row = b * sequence + first; row < (b + 1) * sequence; row += step) {
      added.first += static_cast<double>(choices_of(e, expert[row], rules.choices));
      const TokenScores<Stored> scores(logits[row], rules);
      added.second += static_cast<double>(scores[e]) / scores.whole(rules.experts);
    }
    return added;
  }
  MESHWRIGHT_HD void finish(std::int64_t column, const Sums& added) const {
    const std::int64_t b = column / rules.experts, e = column % rules.experts;
    sums[2 * b * rules.experts + e] = added.first;
    sums[(2 * b + 1) * rules.experts + e] = added.second;
  }
};

// What BalanceSums found of one sequence.
struct SequenceBalance {
  const double *choices, *shares;
  std::int64_t experts;
  MESHWRIGHT_HD SequenceBalance(const double* sums, std::int64_t b, std::int64_t all)
      : choices(sums + 2 * b * all), shares(choices + all), experts(all) {}
  MESHWRIGHT_HD double all_choices() const {
    double all = 0;
    for (std::int64_t e = 0; e < experts; ++e) all += choices[e];
    return all;
  }
};

// Elements of work are sequences.
struct Balance {
  using State = LossState;
  const double* sums;
  std::int64_t experts;
  double part;  // of each sequence's loss
  BalanceFactor factor;
  double* loss;
  MESHWRIGHT_HD State begin() const { return {}; }
  MESHWRIGHT_HD void add(State& state, std::int64_t b) const {
    const SequenceBalance balance(sums, b, experts);
    double products = 0;
    for (std::int64_t e = 0; e < experts; ++e) products += balance.choices[e] * balance.shares[e];
    state.sum += part * factor.of(balance.all_choices()) * products;
  }
  MESHWRIGHT_HD void end(State&) const {}
  MESHWRIGHT_HD void finish(const State& state) const { *loss += state.sum; }
};

// Choices are what they are: only shares have slopes. A team shares the experts of a token.
template <class Stored>
struct BalanceGradient {
  using Real = RealOf<Stored>;
  RowsOf<const Stored> logits, addend;
  const double* sums;
  RouterRules rules;
  std::int64_t sequence, columns;  // columns: experts
  BalanceFactor factor;
  const StepNumbers* numbers;
  RowsOf<Stored> dlogits;
  template <class Team>
  MESHWRIGHT_HD void operator()(Team& team, std::int64_t row) const {
    const TokenScores<Stored> scores(logits[row], rules);
    const SequenceBalance balance(sums, row / sequence, columns);
    const Real whole = scores.whole(columns);
    const auto scale = static_cast<Real>(numbers->loss_scale * factor.of(balance.all_choices()));
    const auto weighed = [&](std::int64_t e) {
      return static_cast<Real>(balance.choices[e]) * scores[e] / whole;
    };
    const Real mean = sum_of_columns<Real>(team, columns, weighed);
    for_columns(team, columns, [&](std::int64_t e) {
      const Real score = scores[e];
      const Real slope = score / whole * (rules.sigmoid ? 1 - score : Real(1));
      const Real known = addend ? load(addend[row], e) : Real(0);
      store(dlogits[row], e,
            known + scale * slope * (static_cast<Real>(balance.choices[e]) - mean));
    });
  }
};

}  // namespace meshwright::work

#pragma once

#include "executor/cuda/row_work.h"

// What kernels do with tokens that go to experts, but their products.
namespace meshwright::work {

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

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gui/plan_rows.h"

namespace meshwright {

// What a person types to see fewer plans: terms that must all hold, such as
// `tp<=4 mem<70 sched=1f1b fits=yes`. Keys are those of the short form and figures of the table;
// numbers of memory are GiB, of steps seconds, of buckets MiB. A word compares by its beginning, so
// `recompute=drop` is any that drops tensors; `tp=2|4` is either.
enum class Comparison { Less, LessOrEqual, Equal, NotEqual, GreaterOrEqual, Greater };

struct FilterTerm {
  std::string key;  // as the table has it: "tp", "needs"
  Comparison comparison = Comparison::Equal;
  std::string value;
  friend bool operator==(const FilterTerm&, const FilterTerm&) = default;
};
std::string to_text(const FilterTerm& term);

struct PlanFilter {
  std::vector<FilterTerm> terms;
  // Terms that are not finished or not understood: they are left out, and shown.
  std::vector<std::string> ignored;
  friend bool operator==(const PlanFilter&, const PlanFilter&) = default;
};
PlanFilter parse_filter(std::string_view text);

// A filter without the terms of these keys, and with others instead: what brushes write.
std::string filter_with(const PlanFilter& filter, const std::vector<std::string>& keys,
                        const std::vector<FilterTerm>& terms);
// A filter without a term.
std::string filter_without(const PlanFilter& filter, const FilterTerm& term);

bool matches(const PlanRow& row, const FilterTerm& term, Bytes limit);

// A column to sort by, and which way; none: best first.
struct PlanOrder {
  std::optional<PlanColumn> column;
  bool descending = false;
};

// Indices of the rows that match, in order. Whatever the order, what fits comes before what does
// not, and rows without a value last.
std::vector<std::uint32_t> visible_rows(const std::vector<PlanRow>& rows, const PlanFilter& filter,
                                        const PlanOrder& order, Bytes limit);

}  // namespace meshwright

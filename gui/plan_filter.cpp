#include "gui/plan_filter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace meshwright {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

// Words that people use, and the one that the table has.
constexpr std::pair<std::string_view, std::string_view> kOtherWords[] = {
    {"mem", "needs"},
    {"memory", "needs"},
    {"sched", "schedule"},
    {"mb", "microbatch"},
    {"vs", "virtual_stages"},
    {"vpp", "virtual_stages"},
    {"sp", "sequence_parallel"},
    {"tokens/s", "tokens"},
    {"tok", "tokens"}};

struct FigureKey {
  std::string_view name;
  PlanFigure figure;
  double unit;  // that one of the number typed stands for
};
constexpr FigureKey kFigureKeys[] = {
    {"step", PlanFigure::Step, 1},           {"tokens", PlanFigure::Tokens, 1},
    {"mfu", PlanFigure::Mfu, 0.01},          {"bubble", PlanFigure::Bubble, 0.01},
    {"needs", PlanFigure::Needs, kGibibyte}, {"spare", PlanFigure::Spare, kGibibyte}};

constexpr std::string_view kWordKeys[] = {
    "fits",    "schedule", "recompute", "offload", "place",     "layers",
    "overlap", "kernels",  "reshard",   "shard",   "gradients", "sequence_parallel",
    "tensor",  "etp",      "capacity",  "context", "summa"};

// Longer signs before those they begin with.
constexpr std::pair<std::string_view, Comparison> kSigns[] = {
    {"<=", Comparison::LessOrEqual}, {">=", Comparison::GreaterOrEqual},
    {"!=", Comparison::NotEqual},    {"<", Comparison::Less},
    {">", Comparison::Greater},      {"=", Comparison::Equal}};

std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

const FigureKey* figure_key(std::string_view key) {
  const auto* found = std::ranges::find(kFigureKeys, key, &FigureKey::name);
  return found == std::end(kFigureKeys) ? nullptr : found;
}

bool holds(double left, Comparison comparison, double right) {
  switch (comparison) {
    case Comparison::Less:
      return left < right;
    case Comparison::LessOrEqual:
      return left <= right;
    case Comparison::Equal:
      return left == right;
    case Comparison::NotEqual:
      return left != right;
    case Comparison::GreaterOrEqual:
      return left >= right;
    case Comparison::Greater:
      return left > right;
  }
  return false;
}

bool is_word_key(std::string_view key) {
  return std::ranges::find(kWordKeys, key) != std::end(kWordKeys);
}

std::optional<FilterTerm> parse_term(std::string_view text) {
  std::pair<std::size_t, std::string_view> sign{text.npos, ""};
  FilterTerm term;
  for (const auto& [letters, comparison] : kSigns) {
    const auto at = text.find(letters);
    if (at == text.npos || at >= sign.first) continue;
    sign = {at, letters};
    term.comparison = comparison;
  }
  if (sign.first == text.npos) return std::nullopt;
  term.key = text.substr(0, sign.first);
  term.value = text.substr(sign.first + sign.second.size());
  for (const auto& [other, word] : kOtherWords) {
    if (term.key == other) term.key = word;
  }
  if (term.value.empty()) return std::nullopt;
  const bool equality =
      term.comparison == Comparison::Equal || term.comparison == Comparison::NotEqual;
  if (is_word_key(term.key)) return equality ? std::optional(term) : std::nullopt;
  if (!figure_key(term.key) && !number_of(PlanChoices{}, term.key)) return std::nullopt;
  return number_in(term.value) ? std::optional(term) : std::nullopt;
}

// What rows are sorted by: what fits first, then the column. Small, since very many are moved.
struct RowKey {
  double number = 0;
  std::uint32_t row = 0;
  std::uint32_t text = 0;  // where the column has texts: which
  std::int8_t rank = 0;
  bool missing = false;
};

RowKey key_of(const PlanRow& row, std::uint32_t index, const PlanColumn& column, bool descending,
              Bytes limit, std::vector<std::string>& texts) {
  // Of what only has bounds one kind is as good as another.
  RowKey key{.row = index, .rank = static_cast<std::int8_t>(std::min(rank_of(row), 3))};
  std::optional<double> number;
  if (column.figure == PlanFigure::Rank) {
    number = row.step.value();
  } else if (column.figure == PlanFigure::Choice) {
    number = number_of(row.choices, column.key);
    key.text = static_cast<std::uint32_t>(texts.size());
    if (!number) texts.push_back(choice_text(row.choices, column.key));
  } else {
    number = number_of(row, column.figure, limit);
  }
  key.missing = !number && column.figure != PlanFigure::Choice;
  key.number = number.value_or(0);
  if (descending) key.number = -key.number;
  return key;
}

// Of rows with equal keys the one that the search ranks first.
bool comes_first(const std::vector<PlanRow>& rows, std::uint32_t a, std::uint32_t b) {
  const auto rank = [&](std::uint32_t row) {
    return std::pair(device_count(rows[row].choices), rows[row].needed);
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  // Very many have the same bounds, and none of them is better.
  if (!rows[a].simulated && !rows[b].simulated) return a < b;
  const std::string text_a = to_text(rows[a].choices), text_b = to_text(rows[b].choices);
  return text_a != text_b ? text_a < text_b : a < b;
}

}  // namespace

std::string to_text(const FilterTerm& term) {
  for (const auto& [letters, comparison] : kSigns) {
    if (comparison == term.comparison) return term.key + std::string(letters) + term.value;
  }
  return "";
}

PlanFilter parse_filter(std::string_view text) {
  PlanFilter filter;
  for (std::size_t at = 0; at < text.size();) {
    const auto start = text.find_first_not_of(' ', at);
    if (start == text.npos) break;
    const auto end = std::min(text.find(' ', start), text.size());
    const std::string_view word = text.substr(start, end - start);
    if (auto term = parse_term(word)) {
      filter.terms.push_back(std::move(*term));
    } else {
      filter.ignored.emplace_back(word);
    }
    at = end;
  }
  return filter;
}

std::string filter_with(const PlanFilter& filter, const std::vector<std::string>& keys,
                        const std::vector<FilterTerm>& terms) {
  std::string text;
  const auto add = [&](const FilterTerm& term) {
    if (!text.empty()) text += ' ';
    text += to_text(term);
  };
  for (const FilterTerm& term : filter.terms) {
    if (std::ranges::find(keys, term.key) == keys.end()) add(term);
  }
  for (const FilterTerm& term : terms) add(term);
  return text;
}

std::string filter_without(const PlanFilter& filter, const FilterTerm& term) {
  PlanFilter rest = filter;
  std::erase(rest.terms, term);
  return filter_with(rest, {}, {});
}

bool matches(const PlanRow& row, const FilterTerm& term, Bytes limit) {
  if (const FigureKey* key = figure_key(term.key)) {
    const auto left = number_of(row, key->figure, limit), right = number_in(term.value);
    return left && right && holds(*left, term.comparison, *right * key->unit);
  }
  if (const auto left = number_of(row.choices, term.key)) {
    const auto right = number_in(term.value);
    return right && holds(*left, term.comparison, *right);
  }
  const std::string text =
      term.key == "fits" ? std::string(verdict_of(row)) : choice_text(row.choices, term.key);
  return text.starts_with(term.value) == (term.comparison == Comparison::Equal);
}

std::vector<std::uint32_t> visible_rows(const std::vector<PlanRow>& rows, const PlanFilter& filter,
                                        const PlanOrder& order, Bytes limit) {
  std::vector<RowKey> keys;
  std::vector<std::string> texts;
  const PlanColumn column = order.column.value_or(PlanColumn{PlanFigure::Step, "", ""});
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    const auto holds_here = [&](const FilterTerm& term) { return matches(rows[i], term, limit); };
    if (std::ranges::all_of(filter.terms, holds_here)) {
      keys.push_back(key_of(rows[i], i, column, order.descending, limit, texts));
    }
  }
  std::ranges::sort(keys, [&](const RowKey& a, const RowKey& b) {
    if (a.rank != b.rank) return a.rank < b.rank;
    if (a.missing != b.missing) return b.missing;
    if (a.number != b.number) return a.number < b.number;
    if (!texts.empty() && texts[a.text] != texts[b.text]) {
      return (texts[a.text] < texts[b.text]) != order.descending;
    }
    return comes_first(rows, a.row, b.row);
  });
  std::vector<std::uint32_t> visible;
  for (const RowKey& key : keys) visible.push_back(key.row);
  return visible;
}

}  // namespace meshwright

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

// "a|b|c" is any of them.
std::vector<std::string_view> values_in(std::string_view text) {
  std::vector<std::string_view> values;
  for (;;) {
    const auto end = text.find('|');
    values.push_back(text.substr(0, end));
    if (end == text.npos) return values;
    text.remove_prefix(end + 1);
  }
}

const FigureKey* figure_key(std::string_view key) {
  const auto* found = std::ranges::find(kFigureKeys, key, &FigureKey::name);
  return found == std::end(kFigureKeys) ? nullptr : found;
}

bool is_equality(const FilterTerm& term) {
  return term.comparison == Comparison::Equal || term.comparison == Comparison::NotEqual;
}

// Whether a value can be meant; what is half typed cannot.
bool is_finished(const FilterTerm& term) {
  const ChoiceKey* choice = find_choice_key(term.key);
  if (term.key != "fits" && !figure_key(term.key) && !choice) return false;
  const KeyKind kind = choice ? choice->kind : term.key == "fits" ? KeyKind::Word : KeyKind::Number;
  const auto is_value = [&](std::string_view value) {
    const bool word = is_equality(term) && kind != KeyKind::Number;
    return !value.empty() && (word || (kind != KeyKind::Word && number_in(value)));
  };
  // Of several one can be meant, but nothing is below several.
  return is_equality(term) ? std::ranges::all_of(values_in(term.value), is_value)
                           : is_value(term.value);
}

// A term of which very many rows are asked: what does not depend on them is looked up once.
class TermCheck {
 public:
  TermCheck(const FilterTerm& term, Bytes limit)
      : comparison_(term.comparison),
        equality_(is_equality(term)),
        figure_(figure_key(term.key)),
        choice_(find_choice_key(term.key)),
        limit_(limit) {
    for (const std::string_view value : values_in(term.value)) {
      auto number = number_in(value);
      if (number && figure_) *number *= figure_->unit;
      values_.push_back({value, number});
    }
  }

  bool holds_for(const PlanRow& row) const {
    const auto number = figure_   ? number_of(row, figure_->figure, limit_)
                        : choice_ ? choice_->number(row.choices)
                                  : std::nullopt;
    // What is not known is neither above nor below.
    if (figure_ && !number) return false;
    if (equality_) return equals(row, number) == (comparison_ == Comparison::Equal);
    return number && values_.front().number && compares(*number, *values_.front().number);
  }

 private:
  struct Value {
    std::string_view text;
    std::optional<double> number;
  };

  bool equals(const PlanRow& row, const std::optional<double>& number) const {
    std::optional<std::string> words;  // made where they are needed
    return std::ranges::any_of(values_, [&](const Value& value) {
      if (number && value.number) return *number == *value.number;
      if (number && (figure_ || choice_->kind == KeyKind::Number)) return false;
      if (!words) words = choice_ ? choice_->text(row.choices) : std::string(verdict_of(row));
      return words->starts_with(value.text);
    });
  }

  bool compares(double left, double right) const {
    switch (comparison_) {
      case Comparison::Less:
        return left < right;
      case Comparison::LessOrEqual:
        return left <= right;
      case Comparison::GreaterOrEqual:
        return left >= right;
      case Comparison::Greater:
        return left > right;
      case Comparison::Equal:
      case Comparison::NotEqual:
        break;
    }
    return false;
  }

  Comparison comparison_;
  bool equality_;
  const FigureKey* figure_;
  const ChoiceKey* choice_;
  Bytes limit_;
  std::vector<Value> values_;
};

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
  return is_finished(term) ? std::optional(term) : std::nullopt;
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
  bool is_word = false;
  if (column.figure == PlanFigure::Rank) {
    number = row.step.value();
  } else if (column.figure == PlanFigure::Choice) {
    const ChoiceKey* choice = find_choice_key(column.key);
    number = choice ? choice->number(row.choices) : std::nullopt;
    is_word = choice && choice->kind == KeyKind::Word;
    if (is_word) {
      key.text = static_cast<std::uint32_t>(texts.size());
      texts.push_back(choice->text(row.choices));
    }
  } else {
    number = number_of(row, column.figure, limit);
  }
  key.missing = !number && !is_word;
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
  return TermCheck(term, limit).holds_for(row);
}

std::vector<std::uint32_t> visible_rows(const std::vector<PlanRow>& rows, const PlanFilter& filter,
                                        const PlanOrder& order, Bytes limit) {
  std::vector<TermCheck> checks;
  for (const FilterTerm& term : filter.terms) checks.emplace_back(term, limit);
  std::vector<RowKey> keys;
  std::vector<std::string> texts;
  const PlanColumn column = order.column.value_or(PlanColumn{PlanFigure::Step, "", ""});
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    const auto holds_here = [&](const TermCheck& check) { return check.holds_for(rows[i]); };
    if (std::ranges::all_of(checks, holds_here)) {
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

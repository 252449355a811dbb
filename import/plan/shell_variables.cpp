#include "import/plan/shell_variables.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/input_error.h"
#include "import/input/text_lines.h"
#include "import/plan/shell_arithmetic.h"

namespace meshwright {
namespace {

using PieceKind = ShellPiece::Kind;

constexpr std::size_t kLongestWord = 1 << 20;

// $1, $#, $@ and $*, which `set` and `shift` change together.
bool is_of_arguments(const std::string& name) {
  return name == "#" || name == "@" || name == "*" ||
         std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

// "$*": all of them in one word.
ShellParts in_one_word(const std::vector<ShellKnownWord>& words) {
  ShellParts all;
  for (const ShellKnownWord& word : words) {
    if (!all.empty()) all.push_back(std::string(" "));
    std::ranges::copy(word.parts, std::back_inserter(all));
  }
  return all;
}

}  // namespace

struct ShellVariables::Expansion {
  std::int64_t line = 1;
  std::vector<ShellKnownWord> done = {};
  ShellParts current = {};
  bool started = false;
};

ForeignValue joined(const ShellParts& parts) {
  std::string text;
  bool known = true;
  for (const ForeignValue& part : parts) {
    text += to_text(part);
    known = known && !std::holds_alternative<Computed>(part);
  }
  return known ? ForeignValue(text) : ForeignValue(Computed{text});
}

ShellVariables::ShellVariables(const std::string& source, const std::vector<std::string>& arguments)
    : source_(source) {
  std::vector<ShellKnownWord> words;
  for (const std::string& argument : arguments) words.push_back({{argument}});
  name_arguments(std::move(words), {});
}

const ShellVariables::Variable* ShellVariables::find(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

// They are variables of these names, of which `set` leaves no others.
void ShellVariables::name_arguments(std::vector<ShellKnownWord> words, UnknownSince unknown_since) {
  check_size(words.size());
  std::erase_if(variables_, [](const auto& entry) { return is_of_arguments(entry.first); });
  const std::size_t count = words.size();
  variables_["#"] = {{{{std::to_string(count)}}}, unknown_since};
  variables_["*"] = {{{in_one_word(words)}}, unknown_since};
  for (std::size_t i = 0; i < count; ++i) {
    variables_[std::to_string(i + 1)] = {{words[i]}, unknown_since};
  }
  variables_["@"] = {std::move(words), unknown_since};
}

void ShellVariables::set_arguments(const std::vector<ShellRawWord>& words,
                                   UnknownSince unknown_since) {
  std::vector<ShellKnownWord> all;
  for (const ShellRawWord& word : words) {
    std::ranges::move(expanded(word), std::back_inserter(all));
    check_size(all.size());
  }
  name_arguments(std::move(all), unknown_since);
}

// As a shell does, none are dropped where there are fewer.
void ShellVariables::shift_arguments(std::int64_t count, UnknownSince unknown_since) {
  const Variable& all = variables_.at("@");
  std::vector<ShellKnownWord> left = all.words;
  if (all.unknown_since) unknown_since = all.unknown_since;
  if (count >= 0 && static_cast<std::size_t>(count) <= left.size()) {
    left.erase(left.begin(), left.begin() + count);
  }
  name_arguments(std::move(left), unknown_since);
}

bool ShellVariables::has_no_arguments() const {
  const Variable& all = variables_.at("@");
  return all.words.empty() && !all.unknown_since;
}

void ShellVariables::assign_array(const ShellArray& array, UnknownSince unknown_since) {
  std::vector<ShellKnownWord> words;
  for (const ShellRawWord& word : array.words) {
    std::ranges::move(expanded(word), std::back_inserter(words));
    check_size(words.size());
  }
  Variable& variable = variables_[array.name];
  if (!array.adds) variable = {};
  if (unknown_since) variable.unknown_since = unknown_since;
  std::ranges::move(words, std::back_inserter(variable.words));
  check_size(variable.words.size());
}

bool ShellVariables::assign(const ShellRawWord& word, UnknownSince unknown_since) {
  const auto start = assignment_in(word);
  if (!start) return false;
  ShellRawWord value = word;
  value.pieces[0].text.erase(0, start->length);
  for (ShellPiece& piece : value.pieces) piece.quoted = true;  // an assignment does not split
  const auto words = expanded(value);
  Variable& variable = variables_[start->name];
  ShellParts parts;
  if (start->adds && !variable.words.empty()) parts = variable.words.front().parts;
  if (!words.empty()) std::ranges::copy(words.front().parts, std::back_inserter(parts));
  check_length(parts);
  variable = {{{std::move(parts), word.line}}, unknown_since};
  return true;
}

// A variable that nothing assigns is not set.
std::optional<std::string> ShellVariables::compared(const ShellRawWord& word) const {
  std::string text;
  for (const ShellPiece& piece : word.pieces) {
    if (piece.kind == PieceKind::Elements) return {};
    const bool unset = piece.kind == PieceKind::Variable && !find(piece.text);
    if (unset && !piece.otherwise) continue;
    ShellPiece whole = piece;
    whole.quoted = true;
    const auto words = expanded({{whole}, word.line}, 0);
    if (words.empty()) continue;
    const ForeignValue value = joined(words.front().parts);
    if (std::holds_alternative<Computed>(value)) return {};
    text += to_text(value);
  }
  return text;
}

std::vector<ShellKnownWord> ShellVariables::expanded(const ShellRawWord& word) const {
  return expanded(word, 0);
}

std::vector<ShellKnownWord> ShellVariables::expanded(const ShellRawWord& word, int depth) const {
  Expansion expansion{.line = word.line};
  for (const ShellPiece& piece : word.pieces) add_piece(expansion, piece, depth);
  end_word(expansion);
  return std::move(expansion.done);
}

// Variables that are made of others many times grow without end.
void ShellVariables::check_length(const ShellParts& parts) const {
  std::size_t length = 0;
  for (const ForeignValue& part : parts) length += to_text(part).size() + 1;
  if (length <= kLongestWord) return;
  throw InputError(
      fmt::format("{}: a word is longer than {} bytes", printable(source_), kLongestWord));
}

void ShellVariables::check_size(std::size_t size) const {
  if (size <= kMostShellWords) return;
  throw InputError(fmt::format("{}: has more than {} words", printable(source_), kMostShellWords));
}

// Where it is not quoted, blanks in what is known end words.
void ShellVariables::add_value(Expansion& into, const ForeignValue& value, bool quoted) const {
  const auto add_part = [&](ForeignValue part) {
    into.current.push_back(std::move(part));
    into.started = true;
  };
  if (quoted || std::holds_alternative<Computed>(value)) return add_part(value);
  const std::string text = to_text(value);
  constexpr std::string_view kBlanks = " \t\r\n";
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find_first_of(kBlanks, at), text.size());
    if (end > at) add_part(text.substr(at, end - at));
    if (end < text.size()) end_word(into);
    at = end + 1;
  }
}

void ShellVariables::end_word(Expansion& into) const {
  check_length(into.current);
  if (into.started) into.done.push_back({std::move(into.current), into.line});
  into.current.clear();
  into.started = false;
  check_size(into.done.size());
}

// Of a list the line is that of the element.
void ShellVariables::end_element(Expansion& into, std::int64_t line) const {
  const std::size_t before = into.done.size();
  end_word(into);
  for (std::size_t i = before; i < into.done.size(); ++i) into.done[i].line = line;
}

void ShellVariables::add_piece(Expansion& into, const ShellPiece& piece, int depth) const {
  switch (piece.kind) {
    case PieceKind::Literal:
      return add_value(into, piece.text, true);
    case PieceKind::Computed: {
      const auto number =
          arithmetic_value(piece.text, [&](const std::string& name) { return number_of(name); });
      const ForeignValue known = std::to_string(number.value_or(0));
      return add_value(into, number ? known : Computed{piece.text}, true);
    }
    case PieceKind::Variable:
      return add_variable(into, piece, depth);
    case PieceKind::Elements:
      return add_elements(into, piece);
  }
}

std::optional<std::int64_t> ShellVariables::number_of(const std::string& name) const {
  const Variable* found = find(name);
  if (!found || found->unknown_since || found->words.empty()) return {};
  const ForeignValue value = joined(found->words.front().parts);
  const auto* text = std::get_if<std::string>(&value);
  return text ? whole_number_in(*text) : std::nullopt;
}

void ShellVariables::add_variable(Expansion& into, const ShellPiece& piece, int depth) const {
  const bool unknown_arguments =
      is_of_arguments(piece.text) && variables_.at("@").unknown_since.has_value();
  const Variable* found = find(piece.text);
  if (found && !found->unknown_since) {
    if (found->words.empty()) return;
    for (const ForeignValue& part : found->words.front().parts) {
      add_value(into, part, piece.quoted);
    }
  } else if (!found && piece.otherwise && !unknown_arguments) {
    add_otherwise(into, piece, depth);
  } else {
    add_value(into, Computed{fmt::format("${}", piece.text)}, true);
  }
}

// ${NAME:-otherwise}
void ShellVariables::add_otherwise(Expansion& into, const ShellPiece& piece, int depth) const {
  ShellRawWord word{shell_pieces(*piece.otherwise, source_, into.line, depth + 1), into.line};
  std::erase_if(word.pieces, [](const ShellPiece& p) { return p.text == "\""; });
  for (ShellPiece& part : word.pieces) {
    if (part.kind == PieceKind::Literal) std::erase(part.text, '"');
    add_piece(into, part, depth + 1);
  }
}

void ShellVariables::add_elements(Expansion& into, const ShellPiece& piece) const {
  const Variable* found = find(piece.text);
  if (!found) {
    fail_line(source_, into.line,
              fmt::format("the list {} is assigned nowhere", printable(piece.text)));
  }
  if (found->unknown_since) {
    fail_line(source_, *found->unknown_since,
              fmt::format("{} is set under a condition or in a loop, expected words as they "
                          "are: give the options themselves, as `echo` prints them",
                          piece.text == "@" ? "\"$@\"" : printable(piece.text)));
  }
  for (const ShellKnownWord& word : found->words) {
    for (const ForeignValue& part : word.parts) add_value(into, part, piece.quoted);
    end_element(into, piece.text == "@" ? into.line : word.line);
  }
}

}  // namespace meshwright

#include "import/plan/shell_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/input_error.h"
#include "import/input/text_lines.h"

namespace meshwright {
namespace {

using PieceKind = ShellPiece::Kind;

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class ShellLexer {
 public:
  ShellLexer(std::string_view text, const std::string& source, std::int64_t line, int depth)
      : text_(text), source_(source), line_(line), depth_(depth) {
    if (depth > kDeepestShell) fail("expansions nest too deep");
  }

  std::vector<ShellCommand> commands() {
    while (!at_end()) read_token();
    end_command();
    return std::move(commands_);
  }

  std::vector<ShellPiece> quoted_pieces() {
    std::vector<ShellPiece> pieces;
    while (!at_end()) read_quoted_character(pieces);
    return pieces;
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  char next() {
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    return c;
  }
  [[noreturn]] void fail(std::string_view problem) const { fail_line(source_, line_, problem); }

  void end_command() {
    if (!command_.words.empty() || !command_.arrays.empty()) {
      commands_.push_back(std::move(command_));
    }
    command_ = {};
  }

  void read_token() {
    const char c = peek();
    if (c == '\\' && peek(1) == '\n') {
      next(), next();
    } else if (c == '\\' && peek(1) == '\r' && peek(2) == '\n') {
      next(), next(), next();
    } else if (c == ' ' || c == '\t' || c == '\r') {
      next();
    } else if (c == '#') {
      skip_comment();
    } else if (c == '\n') {
      next();
      end_command();
      skip_documents();
    } else if ((c == '&' || c == '|') && peek(1) == c) {
      next(), next();
      command_.end = c == '&' ? ShellCommand::End::And : ShellCommand::End::Or;
      end_command();
    } else if (c == ';' || c == '&' || c == '|') {
      next();
      end_command();
    } else if (c == '(' || c == ')') {
      read_parenthesis();
    } else if (c == '<' || c == '>') {
      read_redirection();
    } else {
      read_word_or_array();
    }
  }

  void skip_comment() {
    while (!at_end() && peek() != '\n') next();
  }

  // A command of its own, so that what it groups is seen: a function, a pattern or a subshell.
  void read_parenthesis() {
    end_command();
    command_.line = line_;
    command_.words.push_back({{{PieceKind::Literal, std::string(1, next())}}, line_});
    end_command();
  }

  // The place it goes to is a word of no interest; the lines of a here-document follow.
  void read_redirection() {
    const bool document = peek() == '<' && peek(1) == '<' && peek(2) != '<';
    while (peek() == '<' || peek() == '>' || peek() == '&' || (document && peek() == '-')) next();
    while (peek() == ' ' || peek() == '\t') next();
    if (at_end() || peek() == '\n') return;
    const ShellRawWord word = read_word();
    if (document) documents_.push_back(word.literal().value_or(""));
  }

  void skip_documents() {
    for (const std::string& end : documents_) {
      for (;;) {
        if (at_end()) fail(fmt::format("the here-document \"{}\" does not end", printable(end)));
        const auto stop = std::min(text_.find('\n', at_), text_.size());
        const std::string_view line = trimmed(text_.substr(at_, stop - at_));
        while (at_ < stop) next();
        if (!at_end()) next();
        if (line == end) break;
      }
    }
    documents_.clear();
  }

  void read_word_or_array() {
    if (command_.words.empty() && command_.arrays.empty()) command_.line = line_;
    ShellRawWord word = read_word();
    const auto text = word.literal();
    if (peek() == '(' && text && text->ends_with('=')) return read_array(*text);
    command_.words.push_back(std::move(word));
  }

  void read_array(const std::string& start) {
    ShellArray array{.name = start.substr(0, start.size() - 1)};
    if (array.name.ends_with('+')) {
      array.adds = true;
      array.name.pop_back();
    }
    next();
    for (;;) {
      const char c = peek();
      if (at_end()) fail(fmt::format("the list {} is not closed", printable(array.name)));
      if (c == ')') break;
      if (c == '#') {
        skip_comment();
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        next();
      } else if (c == '\\' && (peek(1) == '\n' || peek(1) == '\r')) {
        next(), next();
      } else if (std::string_view("();&|<>").find(c) != std::string_view::npos) {
        fail(fmt::format("expected words in the list {}, found \"{}\"", printable(array.name), c));
      } else {
        array.words.push_back(read_word());
      }
    }
    next();
    command_.arrays.push_back(std::move(array));
  }

  ShellRawWord read_word() {
    ShellRawWord word{.line = line_};
    constexpr std::string_view kEnd = " \t\r\n;&|<>()";
    while (!at_end() && kEnd.find(peek()) == kEnd.npos) {
      const char c = next();
      if (c == '\'') {
        read_single_quotes(word.pieces);
      } else if (c == '"') {
        read_double_quotes(word.pieces);
      } else if (c == '\\') {
        if (at_end()) break;
        const char escaped = next();
        if (escaped != '\n') add_literal(word.pieces, escaped, true);
      } else if (c == '$' || c == '`') {
        read_expansion(c, word.pieces, false);
      } else {
        add_literal(word.pieces, c, false);
      }
    }
    return word;
  }

  static void add_literal(std::vector<ShellPiece>& pieces, char c, bool quoted) {
    if (pieces.empty() || pieces.back().kind != PieceKind::Literal ||
        pieces.back().quoted != quoted) {
      pieces.push_back({PieceKind::Literal, "", {}, quoted});
    }
    pieces.back().text += c;
  }

  void read_single_quotes(std::vector<ShellPiece>& pieces) {
    pieces.push_back({PieceKind::Literal, "", {}, true});
    while (!at_end() && peek() != '\'') pieces.back().text += next();
    if (at_end()) fail("a ' is not closed");
    next();
  }

  void read_double_quotes(std::vector<ShellPiece>& pieces) {
    const bool empty = peek() == '"';  // a word without letters, unlike "$@" without arguments
    if (empty) pieces.push_back({PieceKind::Literal, "", {}, true});
    while (!at_end() && peek() != '"') read_quoted_character(pieces);
    if (at_end()) fail("a \" is not closed");
    next();
  }

  void read_quoted_character(std::vector<ShellPiece>& pieces) {
    const char c = next();
    if (c == '\\' && std::string_view("$`\"\\\n").find(peek()) != std::string_view::npos) {
      const char escaped = next();
      if (escaped != '\n') add_literal(pieces, escaped, true);
    } else if (c == '$' || c == '`') {
      read_expansion(c, pieces, true);
    } else {
      add_literal(pieces, c, true);
    }
  }

  // Behind a $ or a backquote.
  void read_expansion(char start, std::vector<ShellPiece>& pieces, bool quoted) {
    if (start == '`') {
      std::string text = "`";
      while (!at_end() && peek() != '`') text += next();
      if (at_end()) fail("a ` is not closed");
      next();
      pieces.push_back({PieceKind::Computed, fmt::format("{}`", text), {}, quoted});
    } else if (peek() == '(') {
      pieces.push_back({PieceKind::Computed, fmt::format("${}", balanced('(', ')')), {}, quoted});
    } else if (peek() == '{') {
      const std::string inside = balanced('{', '}');
      pieces.push_back(parameter(std::string_view(inside).substr(1, inside.size() - 2), quoted));
    } else if (is_name_start(peek())) {
      std::string name;
      while (!at_end() && is_name(peek())) name += next();
      pieces.push_back({PieceKind::Variable, name, {}, quoted});
    } else if (peek() == '#' || (peek() >= '1' && peek() <= '9')) {
      pieces.push_back({PieceKind::Variable, std::string(1, next()), {}, quoted});
    } else if (peek() == '@' || peek() == '*') {
      pieces.push_back(all_arguments(next(), quoted));
    } else if (at_end() || std::isspace(static_cast<unsigned char>(peek())) != 0 || peek() == '"') {
      add_literal(pieces, '$', quoted);
    } else {
      pieces.push_back({PieceKind::Computed, fmt::format("${}", next()), {}, quoted});
    }
  }

  std::string balanced(char open, char close) {
    std::string text;
    int depth = 0;
    do {
      if (at_end()) fail(fmt::format("a {} is not closed", open));
      const char c = next();
      text += c;
      if (c == open) ++depth;
      if (c == close) --depth;
    } while (depth > 0);
    return text;
  }

  // "$*" is one word.
  static ShellPiece all_arguments(char sign, bool quoted) {
    if (sign == '*' && quoted) return {PieceKind::Variable, "*", {}, quoted};
    return {PieceKind::Elements, "@", {}, quoted};
  }

  static ShellPiece parameter(std::string_view inside, bool quoted) {
    std::size_t end = 0;
    while (end < inside.size() && is_name(inside[end])) ++end;
    const std::string name(inside.substr(0, end));
    const std::string_view rest = inside.substr(end);
    const bool named = end > 0 && is_name_start(name[0]);
    const bool numbered = end > 0 && name[0] >= '1' && name[0] <= '9' &&
                          name.find_first_not_of("0123456789") == name.npos;
    if (inside == "@" || inside == "*") return all_arguments(inside[0], quoted);
    if (inside == "#") return {PieceKind::Variable, "#", {}, quoted};
    if ((named || numbered) && rest.empty()) return {PieceKind::Variable, name, {}, quoted};
    if (named && (rest == "[@]" || rest == "[*]")) return {PieceKind::Elements, name, {}, quoted};
    for (const std::string_view sign : {":-", ":=", "-", "="}) {
      if (end > 0 && rest.starts_with(sign)) {
        return {PieceKind::Variable, name, std::string(rest.substr(sign.size())), quoted};
      }
    }
    return {PieceKind::Computed, fmt::format("${{{}}}", inside), {}, quoted};
  }

  std::string_view text_;
  const std::string& source_;
  std::int64_t line_;
  int depth_;
  std::size_t at_ = 0;
  ShellCommand command_;
  std::vector<std::string> documents_;
  std::vector<ShellCommand> commands_;
};

}  // namespace

std::optional<std::string> ShellRawWord::literal() const {
  std::string text;
  for (const ShellPiece& piece : pieces) {
    if (piece.kind != PieceKind::Literal) return {};
    text += piece.text;
  }
  return text;
}

std::optional<AssignmentStart> assignment_in(const ShellRawWord& word) {
  if (word.pieces.empty() || word.pieces[0].kind != PieceKind::Literal || word.pieces[0].quoted) {
    return {};
  }
  const std::string& text = word.pieces[0].text;
  const auto equals = text.find('=');
  if (equals == text.npos || equals == 0) return {};
  AssignmentStart start{text.substr(0, equals), text[equals - 1] == '+', equals + 1};
  if (start.adds) start.name.pop_back();
  const auto is_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  if (start.name.empty() || !std::ranges::all_of(start.name, is_name)) return {};
  return start;
}

std::vector<ShellCommand> shell_commands(std::string_view text, const std::string& source) {
  return ShellLexer(text, source, 1, 0).commands();
}

std::vector<ShellPiece> shell_pieces(std::string_view text, const std::string& source,
                                     std::int64_t line, int depth) {
  return ShellLexer(text, source, line, depth).quoted_pieces();
}

}  // namespace meshwright

#include "import/plan/python_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "import/input/text_lines.h"

namespace meshwright {
namespace {

bool is_word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class PythonLexer {
 public:
  PythonLexer(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  std::vector<PythonLine> lines() {
    while (at_ < text_.size()) read();
    if (depth_ > 0) fail_line(source_, line_, "a bracket is not closed");
    end_line();
    return std::move(lines_);
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  char next() {
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    return c;
  }

  void end_line() {
    if (!current_.tokens.empty()) lines_.push_back(std::move(current_));
    current_ = {};
    at_start_ = true;
  }

  void read() {
    const char c = peek();
    if (c == '\n') {
      next();
      if (depth_ == 0) end_line();
    } else if (c == '\\' && (peek(1) == '\n' || peek(1) == '\r')) {
      next();
      while (next() != '\n') {
      }
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      if (at_start_ && depth_ == 0) current_.indent += c == '\t' ? 8 - current_.indent % 8 : 1;
      next();
    } else if (c == ';' && depth_ == 0) {  // another statement of the same indent
      next();
      const std::int64_t indent = current_.indent;
      end_line();
      current_.indent = indent;
      at_start_ = false;
    } else if (c == '#') {
      while (at_ < text_.size() && peek() != '\n') next();
    } else {
      at_start_ = false;
      read_token();
    }
  }

  void read_token() {
    const std::int64_t line = line_;
    if (++tokens_ > kMostPythonTokens) {
      fail_line(source_, line, fmt::format("has more than {} words", kMostPythonTokens));
    }
    const std::size_t prefix = text_prefix();
    if (peek(prefix) == '"' || peek(prefix) == '\'') return read_text(prefix, line);
    std::string word;
    if (is_word_start(peek())) {
      while (is_word(peek())) word += next();
      if (word.size() > kLongestPythonName) {
        fail_line(source_, line, fmt::format("a name is longer than {} bytes", kLongestPythonName));
      }
      add(PythonToken::Kind::Name, word, line);
    } else if (std::isdigit(static_cast<unsigned char>(peek())) != 0 ||
               (peek() == '.' && std::isdigit(static_cast<unsigned char>(peek(1))) != 0)) {
      read_number(line);
    } else {
      const char c = next();
      if (std::string_view("([{").find(c) != std::string_view::npos && ++depth_ > kDeepestPython) {
        fail_line(source_, line, fmt::format("brackets nest deeper than {}", kDeepestPython));
      }
      if (std::string_view(")]}").find(c) != std::string_view::npos && depth_ > 0) --depth_;
      add(PythonToken::Kind::Sign, std::string(1, c), line);
    }
  }

  // Letters before a quote: r, b, f, u and pairs of them.
  std::size_t text_prefix() const {
    std::size_t length = 0;
    while (length < 2 &&
           std::string_view("rRbBfFuU").find(peek(length)) != std::string_view::npos) {
      ++length;
    }
    return peek(length) == '"' || peek(length) == '\'' ? length : 0;
  }

  void read_text(std::size_t prefix, std::int64_t line) {
    PythonToken token{PythonToken::Kind::Text, "", line};
    bool raw = false;
    for (std::size_t i = 0; i < prefix; ++i) {
      const char letter = static_cast<char>(std::tolower(static_cast<unsigned char>(next())));
      token.formatted = token.formatted || letter == 'f';
      raw = raw || letter == 'r';
    }
    const char quote = peek();
    const bool is_long = peek(1) == quote && peek(2) == quote;
    const std::string end(is_long ? 3 : 1, quote);
    at_ += end.size();
    while (text_.substr(at_, end.size()) != end) {
      if (at_ >= text_.size() || (!is_long && peek() == '\n')) {
        fail_line(source_, line, "a text is not closed");
      }
      if (peek() == '\\' && !raw && at_ + 1 < text_.size()) next();
      token.text += next();
    }
    at_ += end.size();
    current_.tokens.push_back(std::move(token));
  }

  void read_number(std::int64_t line) {
    std::string number;
    while (is_word(peek()) || peek() == '.' ||
           ((peek() == '-' || peek() == '+') && (number.ends_with('e') || number.ends_with('E')))) {
      if (peek() != '_') number += peek();
      next();
    }
    add(PythonToken::Kind::Number, number, line);
  }

  void add(PythonToken::Kind kind, std::string text, std::int64_t line) {
    current_.tokens.push_back({kind, std::move(text), line});
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  std::size_t tokens_ = 0;
  int depth_ = 0;
  bool at_start_ = true;
  PythonLine current_;
  std::vector<PythonLine> lines_;
};

}  // namespace

std::vector<PythonLine> python_lines(std::string_view text, const std::string& source) {
  return PythonLexer(text, source).lines();
}

}  // namespace meshwright

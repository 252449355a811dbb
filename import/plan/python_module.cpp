#include "import/plan/python_module.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "costmodel/base/input_error.h"
#include "import/input/text_lines.h"
#include "import/plan/python_tokens.h"

namespace meshwright {
namespace {

using TokenKind = PythonToken::Kind;
using Tokens = std::vector<PythonToken>;

// Of a line from a token on.
class PythonReader {
 public:
  explicit PythonReader(const std::string& source) : source_(source) {}
  std::vector<ForeignSetting> settings;
  std::vector<std::string> functions;  // of each setting; empty: of none

  void read(const PythonLine& line) {
    if (line.indent == 0) {
      const bool starts = line.tokens.front().text == "def" && line.tokens.size() > 1;
      function_ = starts ? line.tokens[1].text : "";
    }
    read_line(line);
    functions.resize(settings.size(), function_);
  }

 private:
  void read_line(const PythonLine& line) {
    while (!blocks_.empty() && line.indent <= blocks_.back().indent) blocks_.pop_back();
    tokens_ = &line.tokens;
    at_ = 0;
    const std::string& first = line.tokens.front().text;
    const bool name = line.tokens.front().kind == TokenKind::Name;
    if (name && is_one_of(first, {"def", "class", "async"})) {
      blocks_.push_back({line.indent, false});
    } else if (name && is_one_of(first, {"if", "elif", "else", "for", "while", "with", "try",
                                         "except", "finally", "match", "case"})) {
      blocks_.push_back({line.indent, true});
    } else if (name && is_one_of(first, {"import", "from", "pass", "global", "nonlocal", "assert",
                                         "raise", "del", "break", "continue", "yield"})) {
      return;
    } else if (first != "@") {
      read_statement();
    }
  }

  struct Block {
    std::int64_t indent = 0;
    bool is_control = false;
  };
  // What an expression gives: scalars, one unless it is a list.
  struct Value {
    std::vector<ForeignValue> values;
    bool is_list = false;
  };

  static bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
  }
  bool is_unknown() const { return std::ranges::any_of(blocks_, &Block::is_control); }

  bool at_end() const { return at_ >= tokens_->size(); }
  const PythonToken& token() const { return (*tokens_)[at_]; }
  bool is_sign(std::string_view sign) const {
    return !at_end() && token().kind == TokenKind::Sign && token().text == sign;
  }
  std::int64_t line() const { return at_end() ? tokens_->back().line : token().line; }

  // Over what parts elements; what else stands there belongs to nothing.
  void step() {
    if (!at_end() && !is_sign(")") && !is_sign("]") && !is_sign("}")) ++at_;
  }

  // Where an expression ends: at a comma or bracket of the level around it, or with the line.
  std::size_t end_of_expression() const {
    int depth = 0;
    for (std::size_t i = at_; i < tokens_->size(); ++i) {
      const PythonToken& one = (*tokens_)[i];
      if (one.kind != TokenKind::Sign) continue;
      if (is_one_of(one.text, {"(", "[", "{"})) ++depth;
      if (is_one_of(one.text, {")", "]", "}"}) && --depth < 0) return i;
      if (depth == 0 && one.text == ",") return i;
    }
    return tokens_->size();
  }

  std::string text_between(std::size_t first, std::size_t last) const {
    std::string text;
    for (std::size_t i = first; i < last && text.size() < 60; ++i) {
      const PythonToken& one = (*tokens_)[i];
      const bool words =
          !text.empty() && one.kind == TokenKind::Name && (*tokens_)[i - 1].kind == TokenKind::Name;
      if (words) text += ' ';
      text += one.kind == TokenKind::Text ? fmt::format("\"{}\"", one.text) : one.text;
    }
    return text;
  }

  void add(const std::string& key, Value value, std::int64_t line) {
    require_few(settings.size(), source_);
    if (is_unknown()) {
      for (ForeignValue& one : value.values) one = Computed{to_text(one)};
    }
    if (key.find('.') == key.npos && value.values.size() == 1) names_[key] = value.values.front();
    settings.push_back({key, std::move(value.values), value.is_list, source_, line});
  }

  // name(.name)*
  std::string dotted_name() {
    std::string name;
    while (!at_end() && token().kind == TokenKind::Name) {
      if (name.size() > kLongestPythonName) fail_line(source_, line(), "a dotted name is too long");
      name += token().text;
      ++at_;
      if (!is_sign(".")) break;
      name += ".";
      ++at_;
    }
    return name;
  }

  void read_statement() {
    if (token().kind == TokenKind::Name && token().text == "return") {
      ++at_;
      if (!at_end()) expression("", 0);
      return;
    }
    const std::int64_t start = line();
    std::vector<std::string> targets = {dotted_name()};
    while (is_sign(",")) {
      ++at_;
      targets.push_back(dotted_name());
    }
    if (is_sign(":")) {  // x: int = 4
      while (!at_end() && !is_sign("=")) ++at_;
    }
    if (!targets.front().empty() && is_sign("=") && !is_comparison()) {
      ++at_;
      return assign(targets, start);
    }
    read_other(targets.front(), start);
  }

  bool is_comparison() const {
    return at_ + 1 < tokens_->size() && (*tokens_)[at_ + 1].kind == TokenKind::Sign &&
           (*tokens_)[at_ + 1].text == "=";
  }

  void assign(const std::vector<std::string>& targets, std::int64_t start) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const std::size_t end = end_of_expression();
      const bool last = i + 1 == targets.size();
      // a = 1, 2 is a pair, a, b = f() is not two values.
      const bool fits = last ? end == tokens_->size() : end < tokens_->size();
      if (targets[i].empty() || !fits) {
        add(targets[i], {{Computed{text_between(at_, tokens_->size())}}}, start);
        return;
      }
      add_expression(targets[i], start);
      at_ = end + 1;
    }
  }

  // x += 1 changes what was assigned; a call may do anything, and is listed.
  void read_other(const std::string& name, std::int64_t start) {
    if (name.empty()) return;
    const bool changes = at_ + 1 < tokens_->size() && token().kind == TokenKind::Sign &&
                         (*tokens_)[at_ + 1].kind == TokenKind::Sign &&
                         (*tokens_)[at_ + 1].text == "=";
    if (changes || is_sign("[")) {
      add(name, {{Computed{text_between(0, tokens_->size())}}}, start);
    } else if (is_sign("(")) {
      add(name + "()", {}, start);
      arguments("", name, 0);
    }
  }

  void add_expression(const std::string& key, std::int64_t start) {
    const Value value = expression(key, 0);
    add(key, value, start);
  }

  // Reads up to the expression's end, and leaves `at_` there. Settings of calls and lists inside
  // get keys below `key`.
  Value expression(const std::string& key, int depth) {
    const std::size_t start = at_, end = end_of_expression();
    Value value;
    if (depth < kDeepestPython && at_ < end) value = primary(key, depth);
    if (at_ != end || value.values.empty()) {
      if (!value.is_list || at_ != end) value = {{Computed{text_between(start, end)}}};
    }
    at_ = end;
    return value;
  }

  Value primary(const std::string& key, int depth) {
    const PythonToken& first = token();
    if (first.kind == TokenKind::Text) return text_value();
    if (first.kind == TokenKind::Number || is_sign("-")) return number_value();
    if (is_sign("[") || is_sign("(")) return list_value(key, depth);
    if (is_sign("{")) return dictionary(key, depth);
    if (first.kind == TokenKind::Name) return name_value(key, depth);
    return {};
  }

  Value text_value() {
    std::string text;
    bool formatted = false;
    while (!at_end() && token().kind == TokenKind::Text) {  // texts side by side are one
      text += token().text;
      formatted = formatted || token().formatted;
      ++at_;
    }
    return {{formatted ? ForeignValue(Computed{text}) : ForeignValue(text)}};
  }

  Value number_value() {
    std::string text;
    if (is_sign("-")) {
      text = "-";
      ++at_;
    }
    if (at_end() || token().kind != TokenKind::Number) return {};
    text += token().text;
    ++at_;
    if (const auto whole = whole_number_in(text)) return {{*whole}};
    if (const auto real = number_in_text(text)) return {{*real}};
    return {{Computed{text}}};
  }

  Value list_value(const std::string& key, int depth) {
    Value value{{}, true};
    ++at_;
    for (std::size_t index = 0; !at_end() && !is_sign("]") && !is_sign(")"); ++index) {
      const std::string own = fmt::format("{}[{}]", key, index);
      const std::int64_t start = line();
      const Value element = expression(own, depth + 1);
      if (element.is_list) {
        add(own, element, start);
      } else {
        value.values.push_back(element.values.front());
      }
      step();
    }
    if (!at_end()) ++at_;
    return value;
  }

  // Keys are texts; the values of others are lost, so the whole is Computed.
  Value dictionary(const std::string& key, int depth) {
    ++at_;
    while (!at_end() && !is_sign("}")) {
      if (token().kind != TokenKind::Text || at_ + 1 >= tokens_->size()) return {};
      const std::string own = key + "." + token().text;
      const std::int64_t start = line();
      ++at_;
      if (!is_sign(":")) return {};
      ++at_;
      add(own, expression(own, depth + 1), start);
      step();
    }
    if (!at_end()) ++at_;
    return {{std::string("{}")}};
  }

  Value name_value(const std::string& key, int depth) {
    const std::string name = dotted_name();
    if (name == "True") return {{true}};
    if (name == "False") return {{false}};
    if (name == "None") return {{ForeignValue()}};
    if (is_sign("(")) {
      arguments(key, name, depth);
      return {{name + "()"}};
    }
    if (const auto known = names_.find(name); known != names_.end()) return {{known->second}};
    return {{name.find('.') == name.npos ? ForeignValue(Computed{name}) : ForeignValue(name)}};
  }

  // name(keyword=value, ...) below `key`; a plugin's below its own name.
  void arguments(const std::string& key, const std::string& callee, int depth) {
    const std::string last = callee.substr(callee.rfind('.') + 1);
    const std::string own = last.ends_with("Plugin") ? last : key;
    ++at_;
    for (std::size_t index = 0; !at_end() && !is_sign(")"); ++index) {
      const std::size_t before = at_;
      const std::int64_t start = line();
      std::string keyword = token().kind == TokenKind::Name ? token().text : "";
      if (!keyword.empty()) ++at_;
      if (!keyword.empty() && is_sign("=") && !is_comparison()) {
        ++at_;
      } else {
        keyword = fmt::format("#{}", index);
        at_ = before;
      }
      const std::string path = own.empty() ? keyword : own + "." + keyword;
      add(path, expression(path, depth + 1), start);
      step();
    }
    if (!at_end()) ++at_;
  }

  const std::string& source_;
  const Tokens* tokens_ = nullptr;
  std::size_t at_ = 0;
  std::vector<Block> blocks_;
  std::string function_;  // that is being read
  std::map<std::string, ForeignValue> names_;
};

// Functions that set attributes that others set otherwise, in their order.
std::vector<std::string> rival_functions(const PythonReader& reader) {
  std::map<std::string, std::size_t> first;  // by key
  std::vector<std::string> rivals;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(rivals, name) == rivals.end()) rivals.push_back(name);
  };
  for (std::size_t i = 0; i < reader.settings.size(); ++i) {
    const ForeignSetting& setting = reader.settings[i];
    if (reader.functions[i].empty() || setting.key.find('.') == setting.key.npos) continue;
    const auto [place, is_new] = first.try_emplace(setting.key, i);
    if (is_new || reader.functions[place->second] == reader.functions[i]) continue;
    if (reader.settings[place->second].values == setting.values) continue;
    add(reader.functions[place->second]);
    add(reader.functions[i]);
  }
  return rivals;
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 12;
  const std::size_t shown = std::min(names.size(), kMost);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + shown, ", "),
                     shown < names.size() ? ", ..." : "");
}

std::vector<ForeignSetting> settings_in(const PythonReader& reader, const std::string& function,
                                        const std::string& source) {
  std::vector<ForeignSetting> settings;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < reader.settings.size(); ++i) {
    const std::string& of = reader.functions[i];
    if (of.empty() || of == function) settings.push_back(reader.settings[i]);
    if (!of.empty() && std::ranges::find(names, of) == names.end()) names.push_back(of);
  }
  if (std::ranges::find(names, function) != names.end()) return settings;
  throw InputError(fmt::format("{}: has no function {} that sets something; it has {}",
                               printable(source), printable(function), list_of(names)));
}

}  // namespace

std::vector<ForeignSetting> parse_python(std::string_view text, const std::string& source,
                                         const std::optional<std::string>& function) {
  require_text(text, source);
  PythonReader reader(source);
  for (const PythonLine& line : python_lines(text, source)) reader.read(line);
  if (function) return settings_in(reader, *function, source);
  const std::vector<std::string> rivals = rival_functions(reader);
  if (rivals.empty()) return std::move(reader.settings);
  throw InputError(
      fmt::format("{}: its functions set the same names to different values; say "
                  "which one is run (--function {}): {}",
                  printable(source), rivals.front(), list_of(rivals)));
}

}  // namespace meshwright

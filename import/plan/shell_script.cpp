#include "import/plan/shell_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "costmodel/base/input_error.h"
#include "import/input/text_lines.h"
#include "import/plan/shell_arithmetic.h"
#include "import/plan/shell_blocks.h"
#include "import/plan/shell_words.h"

namespace meshwright {
namespace {

using PieceKind = ShellPiece::Kind;

constexpr std::size_t kMostWords = 20'000;
constexpr std::size_t kLongestWord = 1 << 20;

// Known parts, and computed ones that are taken for parts of one word.
using Parts = std::vector<ForeignValue>;

struct Variable {
  std::vector<std::pair<Parts, std::int64_t>> words;  // with their lines
  std::optional<std::int64_t> unknown_since = {};     // the line where a condition or loop set it
};

std::optional<std::int64_t> whole_value(const ForeignValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? whole_number_in(*text) : std::nullopt;
}

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

class ShellReader {
 public:
  explicit ShellReader(const std::string& source) : source_(source) {}

  ShellLaunch read(std::string_view text) {
    for (const ShellCommand& command : shell_commands(text, source_)) read_command(command);
    if (!launch_ && unknown_launch_) {
      fail_line(source_, *unknown_launch_, "training is started under a condition or in a loop");
    }
    if (!launch_) {
      throw InputError(fmt::format(
          "{}: no command starts a training program (a .py file with its options), and the file "
          "is no list of options",
          printable(source_)));
    }
    return std::move(*launch_);
  }

 private:
  // A condition of an if or elif, which goes on until "then".
  struct Condition {
    bool is_elif = false;
    Truth truth;
    ShellCommand::End end = ShellCommand::End::Line;
  };

  bool is_unknown() const { return blocks_.is_unknown(); }

  // What && and || lead to depends on the command before; of commands that are no tests, success is
  // expected.
  void read_command(const ShellCommand& command) {
    std::vector<ShellRawWord> words = command.words;
    if (condition_ && !go_on_with_condition(words, command)) return;
    while (!words.empty() && read_keyword(words, command)) {
    }
    if (words.empty() && command.arrays.empty()) return;
    const Truth runs = before_ == ShellCommand::End::And  ? status_
                       : before_ == ShellCommand::End::Or ? negated(status_)
                                                          : Truth(true);
    blocks_.open(runs);
    if (!blocks_.is_skipped()) run_command(words, command);
    blocks_.close();
    const Truth result = is_test(words) ? tested(words) : Truth(true);
    status_ = runs == Truth(false) ? status_ : runs ? result : std::nullopt;
    before_ = command.end;
  }

  void run_command(std::vector<ShellRawWord> words, const ShellCommand& command) {
    for (const ShellArray& array : command.arrays) assign_array(array, command.line);
    while (!words.empty() && is_one_of(words[0].literal().value_or(""),
                                       {"export", "declare", "local", "readonly", "exec", "env"})) {
      words.erase(words.begin());
    }
    while (!words.empty() && assign(words[0], command.line)) words.erase(words.begin());
    if (!words.empty()) read_launch(words, command.line);
  }

  // False: the command is a part of the condition.
  bool go_on_with_condition(const std::vector<ShellRawWord>& words, const ShellCommand& command) {
    if (!words.empty() && words[0].literal() == "then") {
      condition_->is_elif ? blocks_.go_on(condition_->truth) : blocks_.open(condition_->truth);
      condition_.reset();
      before_ = ShellCommand::End::Line;
      return true;
    }
    const Truth truth = tested(words);
    condition_->truth = condition_->end == ShellCommand::End::And ? both(condition_->truth, truth)
                        : condition_->end == ShellCommand::End::Or
                            ? either(condition_->truth, truth)
                            : truth;
    condition_->end = command.end;
    return false;
  }

  // Opens or closes a block; the words behind a keyword are a command. False: no keyword is first.
  bool read_keyword(std::vector<ShellRawWord>& words, const ShellCommand& command) {
    const std::string first = words[0].literal().value_or("");
    if (is_one_of(first, {"if", "elif"})) {
      words.erase(words.begin());
      condition_ = Condition{first == "elif", tested(words), command.end};
      words.clear();
    } else if (is_one_of(first,
                         {"while", "until", "for", "case", "select", "function", "{", "("})) {
      blocks_.open(std::nullopt);
      words.clear();
    } else if (is_one_of(first, {"fi", "done", "esac", "}", ")"})) {
      blocks_.close();
      words.clear();
      before_ = ShellCommand::End::Line;
    } else if (first == "else") {
      blocks_.otherwise();
      words.erase(words.begin());
    } else if (is_one_of(first, {"then", "do"})) {
      words.erase(words.begin());
    } else {
      return false;
    }
    return true;
  }

  static bool is_test(const std::vector<ShellRawWord>& words) {
    return !words.empty() &&
           is_one_of(words[0].literal().value_or(""), {"[", "[[", "test", "!", "true", "false"});
  }

  Truth tested(const std::vector<ShellRawWord>& words) {
    std::vector<TestWord> texts;
    for (const ShellRawWord& word : words) texts.push_back(test_word(word));
    return test_result(texts);
  }

  // A variable that nothing assigns is not set, and a script is read as it runs without arguments.
  TestWord test_word(const ShellRawWord& word) {
    std::string text;
    for (const ShellPiece& piece : word.pieces) {
      if (piece.kind == PieceKind::Elements) return {};
      const bool unset = piece.kind == PieceKind::Variable && !variables_.contains(piece.text);
      if (unset && !piece.otherwise) continue;
      ShellPiece whole = piece;
      whole.quoted = true;
      const auto words = expanded({{whole}, word.line}, 0);
      if (words.empty()) continue;
      const ForeignValue value = joined(words.front().first);
      if (std::holds_alternative<Computed>(value)) return {};
      text += to_text(value);
    }
    return text;
  }

  void assign_array(const ShellArray& array, std::int64_t line) {
    std::vector<std::pair<Parts, std::int64_t>> words;
    for (const ShellRawWord& word : array.words) {
      std::ranges::copy(expanded(word, 0), std::back_inserter(words));
      check_size(words.size());
    }
    Variable& variable = variables_[array.name];
    if (!array.adds) variable = {};
    if (is_unknown()) variable.unknown_since = line;
    std::ranges::copy(words, std::back_inserter(variable.words));
    check_size(variable.words.size());
  }

  bool assign(const ShellRawWord& word, std::int64_t line) {
    const auto start = assignment_in(word);
    if (!start) return false;
    ShellRawWord value = word;
    value.pieces[0].text.erase(0, start->length);
    for (ShellPiece& piece : value.pieces) piece.quoted = true;  // an assignment does not split
    const auto words = expanded(value, 0);
    Variable& variable = variables_[start->name];
    Parts parts;
    if (start->adds && !variable.words.empty()) parts = variable.words.front().first;
    if (!words.empty()) std::ranges::copy(words.front().first, std::back_inserter(parts));
    variable = {{{parts, word.line}}};
    check_length(parts);
    if (is_unknown()) variable.unknown_since = line;
    return true;
  }

  // Variables that are made of others many times grow without end.
  void check_length(const Parts& parts) const {
    std::size_t length = 0;
    for (const ForeignValue& part : parts) length += to_text(part).size() + 1;
    if (length <= kLongestWord) return;
    throw InputError(
        fmt::format("{}: a word is longer than {} bytes", printable(source_), kLongestWord));
  }

  void check_size(std::size_t size) const {
    if (size <= kMostWords) return;
    throw InputError(fmt::format("{}: has more than {} words", printable(source_), kMostWords));
  }

  // The words that a word stands for.
  std::vector<std::pair<Parts, std::int64_t>> expanded(const ShellRawWord& word, int depth) {
    Expansion expansion{.line = word.line};
    for (const ShellPiece& piece : word.pieces) add_piece(expansion, piece, depth);
    end_word(expansion);
    return std::move(expansion.done);
  }

  struct Expansion {
    std::int64_t line = 1;
    std::vector<std::pair<Parts, std::int64_t>> done = {};
    Parts current = {};
    bool started = false;
  };

  void add_part(Expansion& into, ForeignValue part) {
    into.current.push_back(std::move(part));
    into.started = true;
  }

  // Where it is not quoted, blanks in what is known end words.
  void add_value(Expansion& into, const ForeignValue& value, bool quoted) {
    if (quoted || std::holds_alternative<Computed>(value)) return add_part(into, value);
    const std::string text = to_text(value);
    constexpr std::string_view kBlanks = " \t\r\n";
    for (std::size_t at = 0; at < text.size();) {
      const auto end = std::min(text.find_first_of(kBlanks, at), text.size());
      if (end > at) add_part(into, text.substr(at, end - at));
      if (end < text.size()) end_word(into);
      at = end + 1;
    }
  }

  void end_word(Expansion& into) {
    check_length(into.current);
    if (into.started) into.done.emplace_back(std::move(into.current), into.line);
    into.current.clear();
    into.started = false;
    check_size(into.done.size());
  }

  void add_piece(Expansion& into, const ShellPiece& piece, int depth) {
    switch (piece.kind) {
      case PieceKind::Literal:
        add_value(into, piece.text, true);
        return;
      case PieceKind::Computed: {
        const auto number =
            arithmetic_value(piece.text, [&](const std::string& name) { return number_of(name); });
        add_value(into, number ? ForeignValue(std::to_string(*number)) : Computed{piece.text},
                  true);
        return;
      }
      case PieceKind::Variable:
        return add_variable(into, piece, depth);
      case PieceKind::Elements:
        return add_elements(into, piece);
    }
  }

  std::optional<std::int64_t> number_of(const std::string& name) const {
    const auto found = variables_.find(name);
    if (found == variables_.end() || found->second.unknown_since) return {};
    if (found->second.words.empty()) return {};
    const ForeignValue value = joined(found->second.words.front().first);
    return whole_value(value);
  }

  void add_variable(Expansion& into, const ShellPiece& piece, int depth) {
    const auto found = variables_.find(piece.text);
    if (found != variables_.end() && !found->second.unknown_since) {
      if (found->second.words.empty()) return;
      const Parts parts = found->second.words.front().first;
      for (const ForeignValue& part : parts) add_value(into, part, piece.quoted);
      return;
    }
    if (found == variables_.end() && piece.otherwise) {
      ShellRawWord word{shell_pieces(*piece.otherwise, source_, into.line, depth + 1), into.line};
      std::erase_if(word.pieces, [](const ShellPiece& p) { return p.text == "\""; });
      for (ShellPiece& part : word.pieces) {
        if (part.kind == PieceKind::Literal) std::erase(part.text, '"');
        add_piece(into, part, depth + 1);
      }
      return;
    }
    add_value(into, Computed{fmt::format("${}", piece.text)}, true);
  }

  void add_elements(Expansion& into, const ShellPiece& piece) {
    if (piece.text == "@") return;  // as it runs without arguments
    const auto found = variables_.find(piece.text);
    if (found == variables_.end()) {
      fail_line(source_, into.line,
                fmt::format("the list {} is assigned nowhere", printable(piece.text)));
    }
    const Variable& variable = found->second;
    if (variable.unknown_since) {
      fail_line(source_, *variable.unknown_since,
                fmt::format("{} is set under a condition or in a loop, expected words as they "
                            "are: give the options themselves, as `echo` prints them",
                            printable(piece.text)));
    }
    for (const auto& [parts, line] : variable.words) {
      for (const ForeignValue& part : parts) add_value(into, part, piece.quoted);
      end_element(into, line);
    }
  }

  // Of a list the line is that of the element.
  void end_element(Expansion& into, std::int64_t line) {
    const std::size_t before = into.done.size();
    end_word(into);
    for (std::size_t i = before; i < into.done.size(); ++i) into.done[i].second = line;
  }

  void read_launch(const std::vector<ShellRawWord>& raw, std::int64_t line) {
    std::vector<ShellWord> words;
    // Only what may be a launch has to be known.
    const std::string first = raw[0].literal().value_or("$");
    if (is_one_of(first, {"echo", "mkdir", "cd", "set", "source", ".", ":", "[", "[[", "ls", "cat",
                          "module", "pip", "conda", "test", "rm", "trap", "printf"})) {
      return;
    }
    for (const ShellRawWord& word : raw) {
      for (const auto& [parts, word_line] : expanded(word, 0)) {
        add_split(words, {joined(parts), word_line});
      }
      check_size(words.size());
    }
    if (!is_launch(words)) return;
    if (is_unknown()) {
      unknown_launch_ = line;
    } else {
      launch_ = ShellLaunch{std::move(words)};
    }
  }

  static ForeignValue joined(const Parts& parts) {
    std::string text;
    bool known = true;
    for (const ForeignValue& part : parts) {
      text += to_text(part);
      known = known && !std::holds_alternative<Computed>(part);
    }
    return known ? ForeignValue(text) : ForeignValue(Computed{text});
  }

  // sh -c "python train.py --option": a whole command in one word.
  static void add_split(std::vector<ShellWord>& words, const ShellWord& word) {
    const auto* text = std::get_if<std::string>(&word.value);
    if (!text || text->find(".py ") == text->npos) {
      words.push_back(word);
      return;
    }
    for (const std::string& part : words_in(*text)) words.push_back({part, word.line});
  }

  bool is_launch(const std::vector<ShellWord>& words) const {
    const auto text_of = [](const ShellWord& word) { return to_text(word.value); };
    if (words.empty()) return false;
    const bool options_alone = !is_unknown() && text_of(words[0]).starts_with("--");
    return options_alone || std::ranges::any_of(words, [&](const ShellWord& word) {
             return text_of(word).ends_with(".py") || text_of(word) == "torchrun";
           });
  }

  const std::string& source_;
  std::map<std::string, Variable> variables_;
  ShellBlocks blocks_;
  std::optional<Condition> condition_;
  Truth status_ = true;  // of the command before
  ShellCommand::End before_ = ShellCommand::End::Line;
  std::optional<ShellLaunch> launch_;
  std::optional<std::int64_t> unknown_launch_;
};

// Options of the program that starts processes: --nnodes 2, --nproc_per_node=8.
void read_starter(const ShellWord& word, const ShellWord* next, ShellLaunch& launch) {
  std::string name = to_text(word.value);
  std::ranges::replace(name, '_', '-');
  const auto equals = name.find('=');
  std::optional<std::int64_t> value;
  if (equals != name.npos) value = whole_number_in(name.substr(equals + 1));
  if (equals == name.npos && next) value = whole_value(next->value);
  name = name.substr(0, equals);
  if (!value || *value < 1) return;
  if (is_one_of(name, {"--nnodes", "--num-nodes", "--nodes", "-N"})) launch.nodes = value;
  if (is_one_of(name, {"--nproc-per-node", "--num-gpus", "--gpus-per-node"})) {
    launch.devices_per_node = value;
  }
}

// "#SBATCH --nodes=16", where the command does not say.
void read_batch_lines(std::string_view text, ShellLaunch& launch) {
  ShellLaunch lines;
  for (const std::string& line : lines_of(text)) {
    const auto words = words_in(line);
    if (words.size() < 2 || words[0] != "#SBATCH") continue;
    const ShellWord next{words.size() > 2 ? words[2] : std::string()};
    read_starter({words[1]}, &next, lines);
  }
  if (!launch.nodes) launch.nodes = lines.nodes;
  if (!launch.devices_per_node) launch.devices_per_node = lines.devices_per_node;
}

}  // namespace

ShellLaunch read_shell(std::string_view text, const std::string& source) {
  require_text(text, source);
  ShellLaunch launch = ShellReader(source).read(text);
  const auto program = std::ranges::find_if(
      launch.words, [](const ShellWord& word) { return to_text(word.value).ends_with(".py"); });
  if (program != launch.words.end()) {
    for (auto word = launch.words.begin(); word != program; ++word) {
      read_starter(*word, word + 1 == program ? nullptr : &*(word + 1), launch);
    }
    launch.words.erase(launch.words.begin(), program + 1);
  }
  read_batch_lines(text, launch);
  return launch;
}

}  // namespace meshwright

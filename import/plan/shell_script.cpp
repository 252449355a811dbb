#include "import/plan/shell_script.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/input_error.h"
#include "import/input/text_lines.h"
#include "import/plan/shell_blocks.h"
#include "import/plan/shell_variables.h"

namespace meshwright {
namespace {

std::optional<std::int64_t> whole_value(const ForeignValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? whole_number_in(*text) : std::nullopt;
}

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

class ShellReader {
 public:
  ShellReader(const std::string& source, const std::vector<std::string>& arguments)
      : source_(source), variables_(source, arguments) {}

  ShellLaunch read(std::string_view text) {
    for (const ShellCommand& command : shell_commands(text, source_)) read_command(command);
    if (!launch_ && unknown_launch_) {
      fail_line(source_, *unknown_launch_,
                "training is started under a condition, in a loop or in a function");
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
    const ShellVariables::UnknownSince unknown_since =
        is_unknown() ? std::optional(command.line) : std::nullopt;
    for (const ShellArray& array : command.arrays) variables_.assign_array(array, unknown_since);
    while (!words.empty() && is_one_of(words[0].literal().value_or(""),
                                       {"export", "declare", "local", "readonly", "exec", "env"})) {
      words.erase(words.begin());
    }
    while (!words.empty() && variables_.assign(words[0], unknown_since)) {
      words.erase(words.begin());
    }
    if (words.empty() || change_arguments(words, unknown_since)) return;
    read_launch(words, command.line);
  }

  // set -- words, and shift. False: it is another command.
  bool change_arguments(const std::vector<ShellRawWord>& words,
                        ShellVariables::UnknownSince unknown_since) {
    const std::string first = words[0].literal().value_or("");
    if (first == "shift") {
      const auto count = words.size() > 1 ? variables_.compared(words[1]) : "1";
      const auto number = count ? whole_number_in(*count) : std::nullopt;
      variables_.shift_arguments(number.value_or(0), number ? unknown_since : words[0].line);
      return true;
    }
    if (first != "set" || words.size() < 2 || words[1].literal() != "--") return false;
    variables_.set_arguments({words.begin() + 2, words.end()}, unknown_since);
    return true;
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
      blocks_.open(never_runs(words, command) ? Truth(false) : std::nullopt);
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

  // A loop over no arguments, or as long as what is false from the start.
  bool never_runs(const std::vector<ShellRawWord>& words, const ShellCommand& command) {
    const std::string first = words[0].literal().value_or("");
    if (first == "while" && command.end == ShellCommand::End::Line) {
      return tested({words.begin() + 1, words.end()}) == Truth(false);
    }
    if (first != "for" || !variables_.has_no_arguments()) return false;
    if (words.size() == 2) return true;  // for NAME; do
    const bool in = words.size() == 4 && words[2].literal() == "in";
    return in && words[3].pieces.size() == 1 &&
           words[3].pieces[0].kind == ShellPiece::Kind::Elements && words[3].pieces[0].text == "@";
  }

  static bool is_test(const std::vector<ShellRawWord>& words) {
    return !words.empty() &&
           is_one_of(words[0].literal().value_or(""), {"[", "[[", "test", "!", "true", "false"});
  }

  // Without arguments there are no options to get.
  Truth tested(const std::vector<ShellRawWord>& words) {
    if (!words.empty() && words[0].literal() == "getopts" && variables_.has_no_arguments()) {
      return false;
    }
    std::vector<TestWord> texts;
    for (const ShellRawWord& word : words) texts.push_back(variables_.compared(word));
    return test_result(texts);
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
      for (const ShellKnownWord& known : variables_.expanded(word)) {
        add_split(words, {joined(known.parts), known.line});
      }
      if (words.size() > kMostShellWords)
        fail_line(source_, line, "the command has too many words");
    }
    if (!is_launch(words)) return;
    if (is_unknown()) {
      unknown_launch_ = line;
    } else {
      launch_ = ShellLaunch{std::move(words)};
    }
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
  ShellVariables variables_;
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

ShellLaunch read_shell(std::string_view text, const std::string& source,
                       const std::vector<std::string>& arguments) {
  require_text(text, source);
  ShellLaunch launch = ShellReader(source, arguments).read(text);
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

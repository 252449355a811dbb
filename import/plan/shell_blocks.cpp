#include "import/plan/shell_blocks.h"

#include <algorithm>

#include "import/input/text_lines.h"

namespace meshwright {
namespace {

Truth compared(const std::string& left, const std::string& sign, const std::string& right) {
  if (sign == "=" || sign == "==" || sign == "!=") {
    if (right.find_first_of("*?[") != right.npos) return {};
    return (left == right) == (sign != "!=");
  }
  const auto one = whole_number_in(left), other = whole_number_in(right);
  if (!one || !other) return {};
  if (sign == "-eq") return *one == *other;
  if (sign == "-ne") return *one != *other;
  if (sign == "-gt") return *one > *other;
  if (sign == "-ge") return *one >= *other;
  if (sign == "-lt") return *one < *other;
  if (sign == "-le") return *one <= *other;
  return {};
}

// What stands within the brackets.
Truth inner_result(std::vector<TestWord> words) {
  if (!words.empty() && words[0] == "!") {
    words.erase(words.begin());
    return negated(inner_result(std::move(words)));
  }
  if (std::ranges::any_of(words, [](const TestWord& word) { return !word; })) return {};
  if (words.empty()) return false;
  if (words.size() == 1) return !words[0]->empty();
  if (words.size() == 2 && (*words[0] == "-n" || *words[0] == "-z")) {
    return words[1]->empty() == (*words[0] == "-z");
  }
  if (words.size() == 3) return compared(*words[0], *words[1], *words[2]);
  return {};
}

}  // namespace

Truth negated(Truth truth) { return truth ? Truth(!*truth) : std::nullopt; }

Truth both(Truth one, Truth other) {
  if (one == Truth(false) || other == Truth(false)) return false;
  return one && other ? Truth(true) : std::nullopt;
}

Truth either(Truth one, Truth other) { return negated(both(negated(one), negated(other))); }

Truth test_result(const std::vector<TestWord>& words) {
  if (words.empty() || !words[0]) return {};
  const std::string& first = *words[0];
  std::vector<TestWord> rest(words.begin() + 1, words.end());
  if (first == "!") return negated(test_result(rest));
  if (first == "true" || first == "false") return first == "true";
  if (first == "test") return inner_result(std::move(rest));
  if (first != "[" && first != "[[") return {};
  if (rest.empty() || rest.back() != (first == "[" ? "]" : "]]")) return {};
  rest.pop_back();
  return inner_result(std::move(rest));
}

void ShellBlocks::open(Truth reached) { blocks_.push_back({reached}); }

void ShellBlocks::go_on(Truth condition) {
  if (blocks_.empty()) return;
  Block& block = blocks_.back();
  block.before = either(block.before, block.reached);
  block.reached = both(negated(block.before), condition);
}

void ShellBlocks::otherwise() { go_on(true); }

void ShellBlocks::close() {
  if (!blocks_.empty()) blocks_.pop_back();
}

bool ShellBlocks::is_skipped() const {
  return std::ranges::any_of(blocks_,
                             [](const Block& block) { return block.reached == Truth(false); });
}

bool ShellBlocks::is_unknown() const {
  return std::ranges::any_of(blocks_, [](const Block& block) { return !block.reached; });
}

}  // namespace meshwright

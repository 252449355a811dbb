#pragma once

#include <optional>
#include <string>
#include <vector>

namespace meshwright {

// What a condition of a script gives. None: that is not known before it runs.
using Truth = std::optional<bool>;
Truth negated(Truth truth);
Truth both(Truth one, Truth other);
Truth either(Truth one, Truth other);

// A word of a command with everything put in. None: what it is, is not known before it runs.
using TestWord = std::optional<std::string>;

// Of `[ a = b ]`, `[[ -n a ]]`, `test a -gt 1`, and `!` before one. Of tests of files and patterns,
// and of all other commands, none.
Truth test_result(const std::vector<TestWord>& words);

// Blocks that are open, and whether a script gets there.
class ShellBlocks {
 public:
  void open(Truth reached);     // if, and what && and || lead to
  void go_on(Truth condition);  // elif
  void otherwise();             // else
  void close();
  bool is_skipped() const;  // for sure
  bool is_unknown() const;

 private:
  struct Block {
    Truth reached;         // the branch that is open
    Truth before = false;  // whether one before it was taken
  };
  std::vector<Block> blocks_;
};

}  // namespace meshwright

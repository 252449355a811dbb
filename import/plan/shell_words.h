#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// A part of a word of a shell script, before anything is put in for variables.
struct ShellPiece {
  enum class Kind {
    Literal,
    Variable,  // $name, with the text that stands for it where it is not set
    Elements,  // ${name[@]}
    Computed,  // what a command, arithmetic or an expansion of another kind gives
  };
  Kind kind = Kind::Literal;
  std::string text;  // a variable's name, or the words themselves
  std::optional<std::string> otherwise = {};
  bool quoted = false;
};

struct ShellRawWord {
  std::vector<ShellPiece> pieces;
  std::int64_t line = 1;
  // The whole of it where it is literal.
  std::optional<std::string> literal() const;
};

// "NAME=" or "NAME+=" at the start of a word.
struct AssignmentStart {
  std::string name;
  bool adds = false;
  std::size_t length = 0;
};
std::optional<AssignmentStart> assignment_in(const ShellRawWord& word);

// NAME=(...) or NAME+=(...).
struct ShellArray {
  std::string name;
  bool adds = false;
  std::vector<ShellRawWord> words;
};

// What stands between separators: words, arrays that are assigned, and how the line goes on.
struct ShellCommand {
  enum class End { Line, And, Or };  // && and ||; a pipe ends a command as a line does
  std::vector<ShellRawWord> words;
  std::vector<ShellArray> arrays;
  std::int64_t line = 1;
  End end = End::Line;
};

inline constexpr int kDeepestShell = 64;  // of expansions in each other

// Cuts a script into commands; comments, redirections and here-documents are left out. Throws
// InputError with `source` and the line for quotes and brackets that are not closed.
std::vector<ShellCommand> shell_commands(std::string_view text, const std::string& source);

// The parts of a text as if it stood between double quotes.
std::vector<ShellPiece> shell_pieces(std::string_view text, const std::string& source,
                                     std::int64_t line, int depth);

}  // namespace meshwright

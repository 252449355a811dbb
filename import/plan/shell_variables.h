#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "import/plan/foreign_settings.h"
#include "import/plan/shell_words.h"

namespace meshwright {

// Known parts of a word, and computed ones that are taken for parts of one word.
using ShellParts = std::vector<ForeignValue>;
ForeignValue joined(const ShellParts& parts);

// A word with its line.
struct ShellKnownWord {
  ShellParts parts;
  std::int64_t line = 1;
};

// The variables, lists and arguments that a script has, as far as it is read. Where a condition or
// loop decides whether something is assigned, `unknown_since` is the line of it.
class ShellVariables {
 public:
  using UnknownSince = std::optional<std::int64_t>;

  // `source` must outlive this.
  ShellVariables(const std::string& source, const std::vector<std::string>& arguments);

  void assign_array(const ShellArray& array, UnknownSince unknown_since);
  // NAME=word. False: the word is no assignment.
  bool assign(const ShellRawWord& word, UnknownSince unknown_since);
  // set -- words
  void set_arguments(const std::vector<ShellRawWord>& words, UnknownSince unknown_since);
  void shift_arguments(std::int64_t count, UnknownSince unknown_since);
  bool has_no_arguments() const;

  // The words that a word stands for. Throws InputError for lists that nobody knows.
  std::vector<ShellKnownWord> expanded(const ShellRawWord& word) const;
  // The text of a word that is compared. None: only running the script would tell.
  std::optional<std::string> compared(const ShellRawWord& word) const;

 private:
  struct Variable {
    std::vector<ShellKnownWord> words;
    UnknownSince unknown_since = {};
  };
  struct Expansion;

  const Variable* find(const std::string& name) const;
  void name_arguments(std::vector<ShellKnownWord> words, UnknownSince unknown_since);
  std::optional<std::int64_t> number_of(const std::string& name) const;
  std::vector<ShellKnownWord> expanded(const ShellRawWord& word, int depth) const;
  void add_value(Expansion& into, const ForeignValue& value, bool quoted) const;
  void end_word(Expansion& into) const;
  void end_element(Expansion& into, std::int64_t line) const;
  void add_piece(Expansion& into, const ShellPiece& piece, int depth) const;
  void add_variable(Expansion& into, const ShellPiece& piece, int depth) const;
  void add_otherwise(Expansion& into, const ShellPiece& piece, int depth) const;
  void add_elements(Expansion& into, const ShellPiece& piece) const;
  void check_length(const ShellParts& parts) const;
  void check_size(std::size_t size) const;

  const std::string& source_;
  std::map<std::string, Variable> variables_;
};

inline constexpr std::size_t kMostShellWords = 20'000;

}  // namespace meshwright

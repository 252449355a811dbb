#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/plan/foreign_settings.h"

namespace meshwright {

// A word of a command: its text, or words that only running the script would tell.
struct ShellWord {
  ForeignValue value;
  std::int64_t line = 1;
};

// What a script starts: the words of the last command that starts a training program, and how many
// devices there are for it, where the script says that (options of torchrun, #SBATCH lines).
struct ShellLaunch {
  std::vector<ShellWord> words;
  std::optional<std::int64_t> nodes, devices_per_node;
};

// Reads a shell script without running any of it: variables and arrays that are assigned literal
// words, and their use in the command that starts training. `${X:-word}` is that word where nothing
// assigned X. $1, $# and "$@" are the arguments that are given, or those of `set --`. What is
// computed, by commands, arithmetic, conditions or loops, is Computed; an array of which that holds
// and which the command uses is refused with its line, since nobody knows which options it has. A
// file that has options alone is their list. Throws InputError.
ShellLaunch read_shell(std::string_view text, const std::string& source,
                       const std::vector<std::string>& arguments = {});

// The options of a command: "--name" with the words up to the next option.
std::vector<ForeignSetting> options_in(const ShellLaunch& launch, const std::string& source);

}  // namespace meshwright

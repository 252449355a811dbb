#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/json_input.h"
#include "gui/asked_search.h"

namespace meshwright {

// Which colours a person wants; unless chosen, those of the desktop.
enum class ThemeChoice { Follow, Light, Dark };
std::string_view to_text(ThemeChoice choice);
// None: there is none of that name.
std::optional<ThemeChoice> parse_theme_choice(std::string_view text);

// What is there again when the program is started the next time.
struct SavedSession {
  Inputs inputs;
  std::string filter;
  ThemeChoice theme = ThemeChoice::Follow;
  bool every_column = false;
  std::vector<std::string> marked;  // plans by their short forms
  std::vector<std::string> pinned;  // lanes of timelines
  std::vector<std::string> recent;  // files
  // As Qt writes them, in letters: the window's place, and that of its parts.
  std::string geometry, layout;
  friend bool operator==(const SavedSession&, const SavedSession&) = default;
};
std::string session_text(const SavedSession& session);
// Throws InputError.
SavedSession read_session(const JsonInput& input);

}  // namespace meshwright

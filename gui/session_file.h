#pragma once

#include <string>
#include <vector>

#include "costmodel/base/json_input.h"
#include "gui/asked_search.h"

namespace meshwright {

// What is there again when the program is started the next time.
struct SavedSession {
  Inputs inputs;
  std::string filter;
  bool dark = false;
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

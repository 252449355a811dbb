#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace meshwright {

// What a person gave us is wrong. The message is one line that says where (file and field, or
// option), what was found and what was expected. Thrown by readers and checkers only; caught in
// main and in the desktop session.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// `text` with control characters written as \xNN and cut to a readable length, so that names from
// files can neither break a message into lines nor steer a terminal.
std::string printable(std::string_view text);

}  // namespace meshwright

#pragma once

#include <exception>
#include <string>

#include "cli/exit_code.h"

namespace meshwright {

// What the program says and tells the shell when something was thrown.
struct Ending {
  ExitCode code = ExitCode::Internal;
  std::string message;
};
Ending ending_of(const std::exception_ptr& thrown);

}  // namespace meshwright

#pragma once

#include <exception>
#include <string>

#include "cli/exit_code.h"
#include "executor/process/run_failure.h"

namespace meshwright {

// What the program says and tells the shell when something was thrown.
struct Ending {
  ExitCode code = ExitCode::Internal;
  std::string message;
};
Ending ending_of(const std::exception_ptr& thrown);
ExitCode exit_code_of(const RunFailure& failure);

}  // namespace meshwright

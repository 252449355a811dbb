#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/session.h"
#include "simulator/validation/validation.h"

namespace meshwright {

// Which published runs are predicted, and with what; none: the shipped ones.
struct RunsOptions {
  std::optional<std::string> runs, out_of_memory, fits, software;
  std::vector<std::string> sources;  // empty: all
};
struct RunsToPredict {
  ValidationSettings settings;
  std::vector<PublishedRun> ran, failed;
};
// Runs that were read from one file by default are not there when another file is given. Throws
// UsageError where there are none, and InputError.
RunsToPredict runs_to_predict(const RunsOptions& options, const Session& session);

}  // namespace meshwright

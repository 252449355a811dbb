#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/planned_run.h"
#include "cli/session.h"
#include "costmodel/base/write_file.h"
#include "executor/step_results.h"

namespace meshwright {

// One line a step, and one JSON object a step where asked for.
class StepLog {
 public:
  StepLog(const RunCommandOptions& options, const PlannedRun& run, const PreparedRun& prepared,
          const Session& session);
  void add(std::int64_t step, const StepResult& result);

 private:
  const PlannedRun& run_;
  const PreparedRun& prepared_;
  bool quiet_;
  std::optional<LineFile> metrics_;
};

// Prints and writes what a run that has come to its end gave.
void show_run(const RunCommandOptions& options, const Session& session, const PlannedRun& run,
              const PreparedRun& prepared, const RunResult& result);

}  // namespace meshwright

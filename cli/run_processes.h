#pragma once

#include "cli/run_plan.h"
#include "cli/session.h"
#include "executor/process/child_processes.h"
#include "executor/step_results.h"

namespace meshwright {

// Trains with a process for each device, started and watched by this one. Throws RunFailure.
RunResult run_in_processes(const RunCommandOptions& options, const RunPlan& run,
                           const StepProgress& progress);

// The end of a process that has told another one why.
class ToldElsewhere {
 public:
  explicit ToldElsewhere(int code) : code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

// What such a process does. Throws ToldElsewhere if it does not come to its end.
void run_as_process(const RunCommandOptions& options, const Session& session,
                    const ChildPlace& place);

}  // namespace meshwright

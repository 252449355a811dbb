#pragma once

#include <optional>
#include <variant>

#include "costmodel/price/fit_file.h"
#include "simulator/report/predict.h"
#include "simulator/validation/run_plan.h"

namespace meshwright {

// What we say of a run.
struct RunPrediction {
  Seconds step;
  // Of the fullest device, by what sources count (MemoryKind).
  Bytes allocated, reserved, driver;
  Bytes capacity;
  Fit fits = Fit::Yes;
};

// A plan with its programs.
struct LoweredPlan {
  Plan plan;
  Represented represented;
};

// A run lowered: what does not depend on prices. A step with many micro-batches is played with
// fewer, two times, and the difference is what each further round of the pipeline takes: in the
// steady state of a schedule every round is like the one before.
struct LoweredRun {
  RunPlan run;
  LoweredPlan few;
  std::optional<LoweredPlan> more;  // with a round more; none where all are played
  double rounds = 0;                // rounds that neither has, as often as the difference counts
};

// What a run's plan is predicted with, which must not outlive the run.
Setting setting_of(const RunPlan& run, const Fits& fits, const Software& software);

std::variant<LoweredRun, NotExpressed> lower_run(const RunPlan& run, const Fits& fits);

Seconds predict_step(const LoweredRun& lowered, const Fits& fits, const Software& software);
RunPrediction predict(const LoweredRun& lowered, const Fits& fits);

Bytes memory_of(const RunPrediction& prediction, MemoryKind kind);

}  // namespace meshwright

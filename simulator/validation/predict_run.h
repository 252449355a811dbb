#pragma once

#include "costmodel/price/fit_file.h"
#include "simulator/classes/represent.h"
#include "simulator/report/report.h"
#include "simulator/validation/run_plan.h"

namespace meshwright {

// What we say of a run.
struct Prediction {
  Seconds step;
  // Of the fullest device, by what sources count (MemoryKind).
  Bytes allocated, reserved, driver;
  Bytes capacity;
  Fit fits = Fit::Yes;  // by what the driver would say
};

// A run lowered: what does not depend on prices. A step with many micro-batches is played with
// fewer, two times, and the difference is what each further round of the pipeline takes: in the
// steady state of a schedule every round is like the one before.
struct LoweredRun {
  RunPlan run;
  Represented few, more;  // `more` has a round more, or nothing where all are played
  double rounds = 0;      // rounds that neither has, as often as the difference counts
};

LoweredRun lower_run(const RunPlan& run, const Fits& fits);

Seconds predict_step(const LoweredRun& lowered, const Fits& fits, const Software& software);
Prediction predict(const LoweredRun& lowered, const Fits& fits);

Bytes memory_of(const Prediction& prediction, MemoryKind kind);

}  // namespace meshwright

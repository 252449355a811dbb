#pragma once

#include <cstdint>
#include <span>
#include <stop_token>

#include "executor/agreement.h"
#include "executor/data_source.h"
#include "executor/initial_weights.h"
#include "executor/loss_scaler.h"
#include "executor/step_results.h"
#include "executor/step_settings.h"
#include "executor/worker.h"
#include "simulator/program/program.h"

namespace meshwright {

struct RunOptions {
  std::int64_t steps = 1;
  RunIdentity identity;
  WorkerOptions worker;
  DeviceMaker make_device = {};  // none: processors
  bool keep_weights = false;     // those after the last step are in the result
  LossScaling loss_scaling = {};
};

// Trains with one thread per program, after all have agreed that they run the same. `settings` hold
// for all steps; step, label share and loss scale are set by the run.
// `stop` ends the run after a whole step. `progress` is called after each step, from one thread at
// a time. When a device fails, the others are woken and what it threw is thrown.
RunResult run_threads(std::span<const Program> programs, const StepSettings& settings,
                      const RunOptions& options, const Initializer& initializer,
                      const DataSource& data, std::stop_token stop = {},
                      const StepProgress& progress = {});

}  // namespace meshwright

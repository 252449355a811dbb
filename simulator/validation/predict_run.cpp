#include "simulator/validation/predict_run.h"

#include <algorithm>
#include <cmath>

#include "costmodel/fitted_costs.h"
#include "simulator/engine/simulate.h"

namespace meshwright {
namespace {

// Rounds of a pipeline (as many micro-batches as it has stages) that are played before the steady
// state is taken to be reached.
constexpr std::int64_t kRounds = 2;

Fits with_clock(Fits fits, double share) {
  for (DeviceFit& fit : fits.devices) fit.sustained *= share;
  return fits;
}

EngineOptions engine_options(const Software& software, bool memory) {
  EngineOptions options{.share_links = true};
  options.slow_down_inside_node = 1 + software.slow_down;
  options.slow_down_across_nodes = 1 + software.slow_down;
  options.dispatch = Seconds(software.dispatch_s);
  options.memory = memory;
  return options;
}

Represented with_microbatches(const RunPlan& run, std::int64_t microbatches,
                              const CostModel& costs) {
  BatchChoice batch = run.batch;
  batch.global_batch = microbatches * run.choices.dp * run.choices.microbatch;
  const Plan plan = resolve(run.choices, batch, run.model, run.cluster, costs);
  return represent(run.model, plan, run.cluster);
}

// Groups that a device is in: of every kind of parallelism there is, and all devices.
std::int64_t communicators(const PlanChoices& choices) {
  return 1 + (choices.dp > 1) + (choices.tp > 1) + (choices.pp > 1);
}

Bytes scaled(Bytes bytes, double factor) {
  return Bytes(std::llround(static_cast<double>(bytes.value()) * factor));
}

}  // namespace

LoweredRun lower_run(const RunPlan& run, const Fits& fits) {
  const FittedCosts costs(run.cluster, fits, run.software);
  const std::int64_t all = run.batch.global_batch / (run.choices.dp * run.choices.microbatch);
  const std::int64_t round = run.choices.pp;
  const std::int64_t few = kRounds * round + all % round;
  LoweredRun lowered{.run = run};
  if (all <= few + round) {
    lowered.few = with_microbatches(run, all, costs);
    return lowered;
  }
  lowered.few = with_microbatches(run, few, costs);
  lowered.more = with_microbatches(run, few + round, costs);
  lowered.rounds = static_cast<double>((all - few) / round);
  return lowered;
}

Seconds predict_step(const LoweredRun& lowered, const Fits& fits, const Software& software) {
  const RunPlan& run = lowered.run;
  const FittedCosts costs(run.cluster, with_clock(fits, run.clock_share), software);
  const EngineOptions options = engine_options(software, false);
  const Seconds few = simulate(lowered.few.scene, costs, options).step;
  const Seconds once(software.step_s);
  if (lowered.more.programs.empty()) return few + once;
  const Seconds more = simulate(lowered.more.scene, costs, options).step;
  return few + (more - few) * lowered.rounds + once;
}

Prediction predict(const LoweredRun& lowered, const Fits& fits) {
  const RunPlan& run = lowered.run;
  const FittedCosts costs(run.cluster, with_clock(fits, run.clock_share), run.software);
  const Represented& last = lowered.more.programs.empty() ? lowered.few : lowered.more;
  const Timeline timeline = simulate(last.scene, costs, engine_options(run.software, true));
  const DeviceReport fullest = summarize(last.programs, timeline, run.cluster).fullest();
  const Bytes reserved = scaled(fullest.peak, 1 + run.software.allocator);
  const Bytes driver =
      reserved + run.software.context + run.software.communicator * communicators(run.choices);
  const Bytes close = scaled(fullest.capacity, 1 - kCloseShare);
  return {.step = predict_step(lowered, fits, run.software),
          .allocated = fullest.peak,
          .reserved = reserved,
          .driver = driver,
          .capacity = fullest.capacity,
          .fits = driver > fullest.capacity ? Fit::No
                  : driver > close          ? Fit::Close
                                            : Fit::Yes};
}

Bytes memory_of(const Prediction& prediction, MemoryKind kind) {
  switch (kind) {
    case MemoryKind::Allocated:
      return prediction.allocated;
    case MemoryKind::Reserved:
      return prediction.reserved;
    case MemoryKind::Driver:
    case MemoryKind::Unknown:
      return prediction.driver;
  }
  return prediction.driver;
}

}  // namespace meshwright

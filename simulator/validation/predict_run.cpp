#include "simulator/validation/predict_run.h"

#include "costmodel/price/fitted_costs.h"
#include "simulator/engine/simulate.h"
#include "simulator/report/software_run.h"

namespace meshwright {
namespace {

// Rounds of a pipeline (as many micro-batches as it has stages) that are played before the steady
// state is taken to be reached.
constexpr std::int64_t kRounds = 2;

Fits with_clock(Fits fits, double share) {
  for (DeviceFit& fit : fits.devices) fit.sustained *= share;
  return fits;
}

Represented with_microbatches(const RunPlan& run, std::int64_t microbatches,
                              const CostModel& costs) {
  BatchChoice batch = run.batch;
  batch.global_batch = microbatches * run.choices.dp * run.choices.microbatch;
  const Plan plan = resolve(run.choices, batch, run.model, run.cluster, costs);
  return represent(run.model, plan, run.cluster);
}

// Further copies of gradients that a software holds.
Bytes gradient_copies(const RunPlan& run, const DeviceReport& device) {
  Bytes held;
  const auto of = [&](Component component) {
    return device.by_component[static_cast<std::size_t>(component)];
  };
  // 16-bit gradients, each as wide as its weight, from which fp32 ones are added up.
  if (run.narrow_gradients_too) held += of(Component::Weights);
  // The step has no activations, and a third of the state (fp32 weights, two moments) again.
  if (run.software.copies_gradients && !run.software.wide_gradients) {
    const Bytes copied(of(Component::Optimizer).value() / 3);
    const Bytes in_step = of(Component::Activations) + of(Component::Workspace);
    if (copied > in_step) held += copied - in_step;
  }
  return held;
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
  EngineOptions options = engine_options_of(software);
  options.memory = false;
  const Seconds few = simulate(lowered.few.scene, costs, options).step;
  const Seconds once(software.step_s +
                     software.owner_s * static_cast<double>(run.optimizer_owners - 1));
  if (lowered.more.programs.empty()) return few + once;
  const Seconds more = simulate(lowered.more.scene, costs, options).step;
  return few + (more - few) * lowered.rounds + once;
}

Prediction predict(const LoweredRun& lowered, const Fits& fits) {
  const RunPlan& run = lowered.run;
  const FittedCosts costs(run.cluster, with_clock(fits, run.clock_share), run.software);
  const Represented& last = lowered.more.programs.empty() ? lowered.few : lowered.more;
  const Timeline timeline = simulate(last.scene, costs, engine_options_of(run.software));
  const DeviceReport fullest =
      summarize(last.programs, timeline, run.cluster, overheads_of(run.software)).fullest();
  const Bytes outside = fullest.context + fullest.communicators;
  const Bytes beside = gradient_copies(run, fullest);
  Prediction prediction{.step = predict_step(lowered, fits, run.software),
                        .allocated = fullest.peak - outside + beside,
                        .reserved = fullest.reserved + beside,
                        .capacity = fullest.capacity};
  prediction.driver = prediction.reserved + outside;
  const auto most = static_cast<double>(fullest.capacity.value()) * (1 - kCloseShare);
  prediction.fits = prediction.allocated + outside > fullest.capacity       ? Fit::No
                    : static_cast<double>(prediction.driver.value()) > most ? Fit::Close
                                                                            : Fit::Yes;
  return prediction;
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

#include "simulator/validation/predict_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

std::variant<LoweredPlan, NotExpressed> with_microbatches(const RunPlan& run,
                                                          std::int64_t microbatches,
                                                          const Setting& setting) {
  BatchChoice batch = run.batch;
  batch.global_batch = microbatches * run.choices.dp * run.choices.microbatch;
  auto planned = plan_of(run.choices, batch, setting);
  if (const auto* reasons = std::get_if<Reasons>(&planned)) {
    return NotExpressed{fmt::format("{}", fmt::join(*reasons, "; "))};
  }
  Plan plan = std::get<Plan>(std::move(planned));
  Represented represented = represent(run.model, plan, run.cluster);
  return LoweredPlan{std::move(plan), std::move(represented)};
}

// With what each round that was not played adds to the last that was.
Seconds all_rounds(const LoweredRun& lowered, Seconds few, Seconds more) {
  return lowered.more ? few + (more - few) * lowered.rounds : few;
}

Seconds played_step(const LoweredPlan& lowered, const Setting& setting) {
  EngineOptions options = setting.engine;
  options.memory = MemoryDetail::None;
  return simulate(lowered.represented.scene, *setting.costs, options).step;
}

}  // namespace

Setting setting_of(const RunPlan& run, const Fits& fits, const Software& software) {
  Setting setting =
      make_setting(run.model, run.cluster, software, with_clock(fits, run.clock_share));
  // The run says how many own optimizer state; a plan has all replicas share it.
  setting.step.step_s += setting.step.owner_s * static_cast<double>(run.optimizer_owners - 1);
  setting.step.owner_s = 0;
  return setting;
}

std::variant<LoweredRun, NotExpressed> lower_run(const RunPlan& run, const Fits& fits) {
  const Setting setting = setting_of(run, fits, run.software);
  const std::int64_t all = run.batch.global_batch / (run.choices.dp * run.choices.microbatch);
  const std::int64_t round = run.choices.pp;
  const std::int64_t few = kRounds * round + all % round;
  const bool plays_all = all <= few + round;
  auto lowered = with_microbatches(run, plays_all ? all : few, setting);
  if (auto* why = std::get_if<NotExpressed>(&lowered)) return std::move(*why);
  LoweredRun result{.run = run, .few = std::get<LoweredPlan>(std::move(lowered))};
  if (plays_all) return result;
  lowered = with_microbatches(run, few + round, setting);
  if (auto* why = std::get_if<NotExpressed>(&lowered)) return std::move(*why);
  result.more = std::get<LoweredPlan>(std::move(lowered));
  result.rounds = static_cast<double>((all - few) / round);
  return result;
}

Seconds predict_step(const LoweredRun& lowered, const Fits& fits, const Software& software) {
  const Setting setting = setting_of(lowered.run, fits, software);
  const Seconds few = played_step(lowered.few, setting);
  const Seconds more = lowered.more ? played_step(*lowered.more, setting) : few;
  return all_rounds(lowered, few, more) + overheads_of(lowered.few.plan, setting).between_steps;
}

RunPrediction predict(const LoweredRun& lowered, const Fits& fits) {
  const Setting setting = setting_of(lowered.run, fits, lowered.run.software);
  const LoweredPlan& last = lowered.more ? *lowered.more : lowered.few;
  const PlayedPlan played = play(last.represented, last.plan, setting);
  const Seconds more = played.timeline.step;
  const Seconds few = lowered.more ? played_step(lowered.few, setting) : more;
  const DeviceReport& fullest = played.report.fullest();
  return {.step = all_rounds(lowered, few, more) + overheads_of(last.plan, setting).between_steps,
          .allocated = fullest.peak - fullest.context - fullest.communicators,
          .reserved = fullest.reserved,
          .driver = Report::needed(fullest),
          .capacity = fullest.capacity,
          .fits = played.report.fits};
}

Bytes memory_of(const RunPrediction& prediction, MemoryKind kind) {
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

#include "simulator/validation/validation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace meshwright {
namespace {

RunOutcome outcome_of(const PublishedRun& run, const ValidationSettings& settings) {
  RunOutcome outcome{.run = run};
  auto expressed = express(run, settings.software, settings.data);
  if (const auto* why = std::get_if<NotExpressed>(&expressed)) {
    outcome.skipped = why->why;
    return outcome;
  }
  const RunPlan& plan = std::get<RunPlan>(expressed);
  outcome.assumed = plan.assumed;
  auto lowered = lower_run(plan, settings.fits);
  if (const auto* why = std::get_if<NotExpressed>(&lowered)) {
    outcome.skipped = why->why;
  } else {
    outcome.prediction = predict(std::get<LoweredRun>(lowered), settings.fits);
  }
  return outcome;
}

std::string text_of(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "";
}

// Runs of one source, model and device.
std::string ranking_group(const PublishedRun& run) {
  return fmt::format("{}|{}|{}", source_of(run), run.model, run.gpu);
}

// Runs that differ only in how the work is laid out: degrees, schedule, micro-batch,
// recomputation, ZeRO stage.
std::string layout_group(const PublishedRun& run) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", ranking_group(run), text_of(run.layers),
                     text_of(run.hidden), text_of(run.vocabulary), text_of(run.sequence),
                     text_of(run.devices), text_of(run.global_batch), run.precision.value_or(""),
                     run.device_memory_gb.value_or(0), fmt::join(run.options, ";"));
}

Pair step_pair(const RunOutcome& outcome) {
  return {outcome.run.step->value(), outcome.prediction->step.value()};
}

// Tokens per second and device, measured and predicted.
Pair rate_pair(const RunOutcome& outcome) {
  const double tokens = static_cast<double>(*outcome.run.global_batch * *outcome.run.sequence) /
                        static_cast<double>(*outcome.run.devices);
  const Pair step = step_pair(outcome);
  return {tokens / step.measured, tokens / step.predicted};
}

using Groups = std::map<std::string, std::vector<Pair>>;

std::vector<Weighted> weigh(const Groups& groups,
                            std::optional<double> (*value)(std::span<const Pair>)) {
  std::vector<Weighted> weighted;
  for (const auto& [name, pairs] : groups) {
    if (const auto number = value(pairs)) weighted.push_back({*number, pairs.size()});
  }
  return weighted;
}

void count_fits(FitCounts& counts, Fit fits, bool expected) {
  if (fits == Fit::Close) {
    ++counts.close;
  } else if ((fits == Fit::Yes) == expected) {
    ++counts.right;
  } else {
    ++counts.wrong;
  }
}

}  // namespace

std::vector<RunOutcome> predict_runs(const std::vector<PublishedRun>& runs,
                                     const ValidationSettings& settings,
                                     const ValidationProgress& progress,
                                     const std::stop_token& stop) {
  std::vector<RunOutcome> outcomes;
  for (const PublishedRun& run : runs) {
    if (stop.stop_requested()) break;
    outcomes.push_back(outcome_of(run, settings));
    if (progress) progress(outcomes.size(), runs.size());
  }
  return outcomes;
}

Accuracy score(std::span<const RunOutcome> ran, std::span<const RunOutcome> failed) {
  Accuracy result;
  std::vector<Pair> steps, memory;
  Groups rankings, layouts;
  for (const RunOutcome& outcome : ran) {
    ++result.rows;
    if (!outcome.prediction) {
      result.skipped.emplace_back(outcome.run.id, outcome.skipped);
      continue;
    }
    ++result.predicted;
    const RunPrediction& prediction = *outcome.prediction;
    count_fits(result.fitting, prediction.fits, true);
    if (outcome.run.peak_memory && outcome.run.memory_kind != MemoryKind::Unknown) {
      memory.push_back(
          {static_cast<double>(outcome.run.peak_memory->value()),
           static_cast<double>(memory_of(prediction, outcome.run.memory_kind).value())});
    }
    if (!outcome.run.step) continue;
    steps.push_back(step_pair(outcome));
    rankings[ranking_group(outcome.run)].push_back(rate_pair(outcome));
    layouts[layout_group(outcome.run)].push_back(step_pair(outcome));
  }
  for (const RunOutcome& outcome : failed) {
    if (outcome.prediction) count_fits(result.out_of_memory, outcome.prediction->fits, false);
  }
  result.step = summarize_errors(steps);
  result.rank_correlation = mean_by_rows(weigh(rankings, spearman));
  const auto regrets = weigh(layouts, regret);
  result.regret = mean_by_rows(regrets);
  result.regret_groups = regrets.size();
  if (const auto errors = summarize_errors(memory)) result.memory_error = errors->mean;
  result.memory_rows = memory.size();
  return result;
}

}  // namespace meshwright

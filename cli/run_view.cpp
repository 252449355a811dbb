#include "cli/run_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/report_view.h"
#include "simulator/report/measured_timeline.h"
#include "simulator/report/trace_file.h"

namespace meshwright {
namespace {

Bytes largest_peak(const RunResult& result) {
  Bytes most;
  for (const Bytes peak : result.peaks) most = std::max(most, peak);
  return most;
}

// Of the device that has most of it.
Bytes largest_beside(const RunResult& result) {
  Bytes most;
  for (const BesideMemory& beside : result.beside) most = std::max(most, beside.used);
  return most;
}

Seconds median_time(const RunResult& result) {
  std::vector<Seconds> times;
  for (const StepResult& step : result.steps) times.push_back(step.time);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

bool scales_loss(const PreparedRun& prepared) {
  return skips_steps(prepared.programs.front().precision);
}

std::int64_t skipped_steps(const RunResult& result) {
  return std::ranges::count(result.steps, true, &StepResult::skipped);
}

nlohmann::ordered_json result_json(const PreparedRun& prepared, const RunResult& result,
                                   const Report& measured) {
  nlohmann::ordered_json losses = nlohmann::ordered_json::array();
  for (const StepResult& step : result.steps) losses.push_back(step.loss);
  nlohmann::ordered_json json = {{"devices", prepared.programs.size()}, {"losses", losses}};
  if (scales_loss(prepared)) {
    json["loss_scale"] = result.steps.back().loss_scale;
    json["skipped_steps"] = skipped_steps(result);
  }
  json.update({{"step_s", median_time(result).value()},
               {"predicted_step_s", prepared.predicted.step.value()},
               {"peak_bytes", largest_peak(result).value()},
               {"predicted_peak_bytes", prepared.predicted.fullest().peak.value()},
               {"beside_bytes", largest_beside(result).value()},
               {"predicted", report_json(prepared.predicted)},
               {"measured", report_json(measured)}});
  return json;
}

std::string norm_text(const StepResult& result) {
  if (!result.skipped) return fmt::format("grad norm {:.4f}  ", result.gradient_norm.value_or(0));
  return fmt::format("skipped: gradients overflow at a loss scale of {}  ", result.loss_scale);
}

std::string result_text(const PreparedRun& prepared, const RunResult& result,
                        const Report& measured) {
  std::string text =
      fmt::format("{} devices, {} steps of {} each (the middle one), last loss {:.10g}\n",
                  prepared.programs.size(), result.steps.size(), to_text(median_time(result)),
                  result.steps.back().loss);
  if (scales_loss(prepared)) {
    text += fmt::format("loss scale {}, {} steps skipped\n", result.steps.back().loss_scale,
                        skipped_steps(result));
  }
  if (const Bytes beside = largest_beside(result); beside > Bytes(0)) {
    text += fmt::format("beside the plan's memory {} for copies of what is sent and libraries\n",
                        to_text(beside));
  }
  return text + comparison_text(prepared.predicted, measured);
}

}  // namespace

StepLog::StepLog(const RunCommandOptions& options, const PlannedRun& run,
                 const PreparedRun& prepared, const Session& session)
    : run_(run), prepared_(prepared), quiet_(session.quiet) {
  if (options.metrics) metrics_.emplace(*options.metrics);
}

void StepLog::add(std::int64_t step, const StepResult& result) {
  const std::int64_t tokens = run_.plan().global_batch * run_.plan().sequence;
  if (!quiet_) {
    fmt::print(stderr, "step {:>4}  loss {:.6f}  {}{}\n", step, result.loss, norm_text(result),
               to_text(result.time));
  }
  if (!metrics_) return;
  nlohmann::ordered_json line = {{"step", step},
                                 {"loss", result.loss},
                                 {"tokens", tokens},
                                 {"step_s", result.time.value()},
                                 {"predicted_step_s", prepared_.predicted.step.value()},
                                 {"grad_norm", result.gradient_norm.value_or(0)},
                                 {"peak_bytes", prepared_.predicted.fullest().peak.value()}};
  if (result.skipped) line["grad_norm"] = nullptr;
  if (scales_loss(prepared_)) {
    line["loss_scale"] = result.loss_scale;
    line["skipped"] = result.skipped;
  }
  metrics_->add(line.dump());
}

void show_run(const RunCommandOptions& options, const Session& session, const PlannedRun& run,
              const PreparedRun& prepared, const RunResult& result) {
  const Timeline timeline = with_waiting_idle(prepared.programs, result.timeline);
  if (options.trace) write_text_file(*options.trace, trace_text(prepared.programs, timeline));
  const Report measured = summarize(prepared.programs, timeline, run.cluster(), prepared.overheads);
  session.json ? print_json(result_json(prepared, result, measured))
               : print_text(result_text(prepared, result, measured));
}

}  // namespace meshwright

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/model_option.h"
#include "cli/plan_option.h"
#include "cli/profile_option.h"
#include "cli/software_option.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/write_file.h"
#include "costmodel/cluster/local_cluster.h"
#include "costmodel/price/fitted_costs.h"
#include "costmodel/price/profile_costs.h"
#include "costmodel/probe/profile_cluster.h"
#include "executor/benchmark/cpu_target.h"
#include "executor/cpu/kernels.h"
#include "executor/train.h"
#include "simulator/engine/simulate.h"
#include "simulator/lowering/lower.h"
#include "simulator/program/check_program.h"
#include "simulator/report/report.h"
#include "simulator/report/trace_file.h"

namespace meshwright {
namespace {

constexpr auto kRunFooter =
    "Devices are threads of this process. Every plan starts from the same weights, sees the same\n"
    "data and gives the same losses. Tokens are random. The predicted time assumes a usual "
    "core\nfor each thread, or with --profile what was measured.\n\n"
    "Example: meshwright run --model gpt2-tiny --plan dp=2,pp=2,zero=1 --global-batch 8 --seq 64 "
    "--steps 3";

struct RunCommandOptions {
  PlanOptions plan;
  std::int64_t steps = 10;
  std::uint64_t seed = 0;
  double learning_rate = 1e-3, clip = 1.0;
  std::optional<std::string> profile, metrics, trace;
  bool dry_run = false;
};

// Everything that is known before the first step.
struct Prepared {
  Plan plan;
  std::vector<Program> programs;
  Report predicted;
};

void check_runnable(const Plan& plan) {
  if (!has_kernels(plan.precision)) {
    throw UsageError(fmt::format("precision {}: CPUs run fp32 and fp64", to_text(plan.precision)));
  }
  if (plan.kernels != KernelSet::Executor) {
    throw UsageError(
        fmt::format("kernels {}: only those named executor run here, others can be "
                    "simulated",
                    to_text(plan.kernels)));
  }
}

Prepared prepare(const RunCommandOptions& options, const Session& session) {
  const OpGraph graph = model_from_option(options.plan.model, session);
  const Model model = make_model(graph);
  const std::int64_t devices = devices_needed(options.plan);
  constexpr std::int64_t kMostThreads = 256;
  if (devices > kMostThreads) {
    throw UsageError(fmt::format("--plan {}: {} devices; one process runs at most {}",
                                 printable(options.plan.plan), devices, kMostThreads));
  }
  const Profile profile =
      options.profile ? profile_from_option(*options.profile, session) : Profile{};
  const Cluster cluster = options.profile ? cluster_of_profile(profile, *options.profile, devices)
                                          : local_cluster(devices, machine_memory());
  const FittedCosts fitted(cluster, read_fits(session.data / "fits.json"),
                           software_from_option(kOwnSoftware, session));
  const MeasuredTimes times(profile);
  const ProfileCosts costs(times, cluster, fitted);
  Prepared prepared{.plan = plan_from_options(options.plan, graph, model, cluster, costs, true)};
  check_runnable(prepared.plan);
  prepared.programs = lower_all(model, prepared.plan);
  if (const auto problems = check_programs(prepared.programs); !problems.empty()) {
    throw std::logic_error(fmt::format("{}", fmt::join(problems, "; ")));
  }
  prepared.predicted = summarize(prepared.programs, simulate(prepared.programs, costs), cluster);
  return prepared;
}

std::int64_t vocabulary_of(const std::string& model, const Session& session) {
  const OpGraph graph = model_from_option(model, session);
  for (const Dim& dim : graph.dims) {
    if (dim.name == "vocabulary") return dim.size;
  }
  throw UsageError(
      fmt::format("--model {}: has no vocabulary to draw random tokens from", printable(model)));
}

Bytes largest_peak(const RunResult& result) {
  Bytes most;
  for (const Bytes peak : result.peaks) most = std::max(most, peak);
  return most;
}

// One line a step, and one JSON object a step where asked for.
class StepLog {
 public:
  StepLog(const RunCommandOptions& options, const Prepared& prepared, const Session& session)
      : prepared_(prepared), quiet_(session.quiet) {
    if (options.metrics) metrics_.emplace(*options.metrics);
  }

  void add(std::int64_t step, const StepResult& result) {
    const std::int64_t tokens = prepared_.plan.global_batch * prepared_.plan.sequence;
    if (!quiet_) {
      fmt::print(stderr, "step {:>4}  loss {:.6f}  grad norm {:.4f}  {}\n", step, result.loss,
                 result.gradient_norm.value_or(0), to_text(result.time));
    }
    if (!metrics_) return;
    const nlohmann::ordered_json line = {
        {"step", step},
        {"loss", result.loss},
        {"tokens", tokens},
        {"step_s", result.time.value()},
        {"predicted_step_s", prepared_.predicted.step.value()},
        {"grad_norm", result.gradient_norm.value_or(0)},
        {"peak_bytes", prepared_.predicted.fullest().peak.value()}};
    metrics_->add(line.dump());
  }

 private:
  const Prepared& prepared_;
  bool quiet_;
  std::optional<LineFile> metrics_;
};

Seconds median_time(const RunResult& result) {
  std::vector<Seconds> times;
  for (const StepResult& step : result.steps) times.push_back(step.time);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

nlohmann::ordered_json result_json(const Prepared& prepared, const RunResult& result) {
  nlohmann::ordered_json losses = nlohmann::ordered_json::array();
  for (const StepResult& step : result.steps) losses.push_back(step.loss);
  return {{"devices", prepared.programs.size()},
          {"losses", losses},
          {"step_s", median_time(result).value()},
          {"predicted_step_s", prepared.predicted.step.value()},
          {"peak_bytes", largest_peak(result).value()},
          {"predicted_peak_bytes", prepared.predicted.fullest().peak.value()}};
}

std::string result_text(const Prepared& prepared, const RunResult& result) {
  return fmt::format(
      "{} devices, {} steps, last loss {:.10g}\n"
      "              predicted   measured\n"
      "  step        {:<10}  {:<10}\n"
      "  memory      {:<10}  {:<10}  of the fullest device\n",
      prepared.programs.size(), result.steps.size(), result.steps.back().loss,
      to_text(prepared.predicted.step), to_text(median_time(result)),
      to_text(prepared.predicted.fullest().peak), to_text(largest_peak(result)));
}

void train(const RunCommandOptions& options, const Session& session) {
  const Prepared prepared = prepare(options, session);
  if (options.dry_run) {
    const std::string text =
        fmt::format("{} devices, {} tasks on device 0, predicted step {}, memory {}\n",
                    prepared.programs.size(), prepared.programs[0].tasks.size(),
                    to_text(prepared.predicted.step), to_text(prepared.predicted.fullest().peak));
    return session.json
               ? print_json({{"devices", prepared.programs.size()},
                             {"predicted_step_s", prepared.predicted.step.value()},
                             {"predicted_peak_bytes", prepared.predicted.fullest().peak.value()}})
               : print_text(text);
  }
  if (options.trace) check_writable(*options.trace);
  StepLog log(options, prepared, session);
  const StepSettings settings{
      .seed = options.seed, .learning_rate = options.learning_rate, .clip = options.clip};
  const RandomTokens data(options.seed, vocabulary_of(options.plan.model, session));
  const RunResult result = run_threads(
      prepared.programs, settings, {.steps = options.steps}, random_weights(options.seed), data, {},
      [&](std::int64_t step, const StepResult& done) { log.add(step, done); });
  if (options.trace) {
    write_text_file(*options.trace, trace_text(prepared.programs, result.timeline));
  }
  session.json ? print_json(result_json(prepared, result))
               : print_text(result_text(prepared, result));
}

}  // namespace

void add_run_command(Command& program, Session& session) {
  Command command =
      program.subcommand("run", "Trains by a plan, with threads as devices", kRunFooter);
  const auto options = std::make_shared<RunCommandOptions>();
  add_plan_options(command, options->plan);
  command.number("--steps", options->steps, "How many").with_default().positive();
  command.number("--seed", options->seed, "Of weights, data and dropout").with_default();
  command.number("--learning-rate", options->learning_rate, "Of AdamW")
      .with_default()
      .at_least_zero();
  command.number("--clip", options->clip, "Largest norm of all gradients")
      .with_default()
      .positive();
  command.text("--profile", options->profile,
               "Predict with what `benchmark` measured, not for a usual core");
  command.text("--metrics", options->metrics, "Write one JSON object a step to this file");
  command.text("--trace", options->trace, "Write the last step's timeline for ui.perfetto.dev");
  command.flag("--dry-run", options->dry_run, "Plan, check and predict only");
  add_json_option(command, session);
  command.runs([options, &session] { train(*options, session); });
}

}  // namespace meshwright

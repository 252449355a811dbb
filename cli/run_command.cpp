#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/model_option.h"
#include "cli/plan_option.h"
#include "cli/profile_option.h"
#include "cli/report_view.h"
#include "cli/software_option.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/write_file.h"
#include "costmodel/cluster/local_cluster.h"
#include "costmodel/probe/profile_cluster.h"
#include "executor/cpu/kernels.h"
#include "executor/host_memory.h"
#include "executor/train.h"
#include "simulator/program/check_program.h"
#include "simulator/report/measured_timeline.h"
#include "simulator/report/predict.h"
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
  Cluster cluster;
  Plan plan;
  std::int64_t vocabulary = 0;
  RunIdentity identity;
  std::vector<Program> programs;
  Overheads overheads;
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

// Below which random tokens are drawn: the model has a row and a class for each.
std::int64_t vocabulary_of(const OpGraph& graph, const std::string& model) {
  const auto tokens = index_limit(graph, "tokens"), labels = index_limit(graph, "labels");
  if (tokens && labels) return std::min(*tokens, *labels);
  throw UsageError(
      fmt::format("--model {}: random tokens need a model with the inputs tokens and labels",
                  printable(model)));
}

void check_positions(const OpGraph& graph, const Plan& plan, const std::string& model) {
  const auto positions = index_limit(graph, "positions");
  if (!positions || *positions >= plan.sequence) return;
  throw UsageError(fmt::format("--model {}: has positions for a sequence of {}, not of {}",
                               printable(model), *positions, plan.sequence));
}

Cluster cluster_for(const RunCommandOptions& options, const AskedPlan& asked,
                    const Profile& profile) {
  const std::int64_t devices = devices_needed(asked);
  constexpr std::int64_t kMostThreads = 256;
  if (devices > kMostThreads) {
    throw UsageError(fmt::format("--plan {}: {} devices; one process runs at most {}",
                                 printable(options.plan.plan), devices, kMostThreads));
  }
  return options.profile ? cluster_of_profile(profile, *options.profile, devices)
                         : local_cluster(devices, total_memory());
}

Prepared prepare(const RunCommandOptions& options, const Session& session) {
  require_given({{"--model", !options.plan.model.empty()}, {"--plan", !options.plan.plan.empty()}});
  const Software software = software_from_option(kOwnSoftware, session);
  const OpGraph graph = model_from_option(options.plan.model, session);
  const AskedPlan asked = asked_plan(options.plan, graph, software.plan, Precision::FP32);
  const Profile profile =
      options.profile ? profile_from_option(*options.profile, session) : Profile{};
  Prepared prepared{.cluster = cluster_for(options, asked, profile),
                    .vocabulary = vocabulary_of(graph, options.plan.model)};
  const Model model = make_model(graph);
  const Setting setting = make_setting(model, prepared.cluster, software,
                                       read_fits(session.data / "fits.json"), profile);
  prepared.plan = plan_for(asked, options.plan, setting, true);
  prepared.identity = identity_of(prepared.plan, graph.dims);
  check_runnable(prepared.plan);
  check_positions(graph, prepared.plan, options.plan.model);
  Represented all = represent_all(model, prepared.plan, prepared.cluster);
  if (const auto problems = check_programs(all.programs); !problems.empty()) {
    throw std::logic_error(fmt::format("{}", fmt::join(problems, "; ")));
  }
  prepared.predicted = play(all, prepared.plan, setting).report;
  prepared.programs = std::move(all.programs);
  prepared.overheads = overheads_of(prepared.plan, setting);
  return prepared;
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

nlohmann::ordered_json result_json(const Prepared& prepared, const RunResult& result,
                                   const Report& measured) {
  nlohmann::ordered_json losses = nlohmann::ordered_json::array();
  for (const StepResult& step : result.steps) losses.push_back(step.loss);
  return {{"devices", prepared.programs.size()},
          {"losses", losses},
          {"step_s", median_time(result).value()},
          {"predicted_step_s", prepared.predicted.step.value()},
          {"peak_bytes", largest_peak(result).value()},
          {"predicted_peak_bytes", prepared.predicted.fullest().peak.value()},
          {"predicted", report_json(prepared.predicted)},
          {"measured", report_json(measured)}};
}

std::string result_text(const Prepared& prepared, const RunResult& result, const Report& measured) {
  return fmt::format("{} devices, {} steps of {} each (the middle one), last loss {:.10g}\n{}",
                     prepared.programs.size(), result.steps.size(), to_text(median_time(result)),
                     result.steps.back().loss, comparison_text(prepared.predicted, measured));
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
  const Bytes needed = memory_needed(prepared.programs), available = available_memory();
  if (!session.quiet) {
    fmt::print(stderr, "memory: {} needed, {} available\n", to_text(needed), to_text(available));
  }
  check_memory(needed, available);
  StepLog log(options, prepared, session);
  const StepSettings settings{
      .seed = options.seed, .learning_rate = options.learning_rate, .clip = options.clip};
  const RandomTokens data(options.seed, prepared.vocabulary);
  const RunResult result = run_threads(
      prepared.programs, settings, {.steps = options.steps, .identity = prepared.identity},
      random_weights(options.seed), data, {},
      [&](std::int64_t step, const StepResult& done) { log.add(step, done); });
  const Timeline timeline = with_waiting_idle(prepared.programs, result.timeline);
  if (options.trace) write_text_file(*options.trace, trace_text(prepared.programs, timeline));
  const Report measured =
      summarize(prepared.programs, timeline, prepared.cluster, prepared.overheads);
  session.json ? print_json(result_json(prepared, result, measured))
               : print_text(result_text(prepared, result, measured));
}

}  // namespace

void add_run_command(Command& program, Session& session) {
  Command command =
      program.subcommand("run", "Trains by a plan, with threads as devices", kRunFooter);
  const auto options = std::make_shared<RunCommandOptions>();
  add_plan_options(command, options->plan);
  command.text("--plan", options->plan.plan, kPlanAbout);
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

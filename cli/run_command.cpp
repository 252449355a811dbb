#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/planned_run.h"
#include "cli/processes.h"
#include "cli/run_dry.h"
#include "cli/run_view.h"
#include "executor/data_source.h"
#include "executor/host_memory.h"
#include "executor/initial_weights.h"
#include "executor/process/run_device.h"
#include "executor/train.h"
#include "simulator/lowering/lower.h"

namespace meshwright {
namespace {

constexpr auto kRunFooter =
    "Devices are threads of this process, or processes with --processes. Every plan starts from "
    "the same weights, sees the same\n"
    "data and gives the same losses. Tokens are random. The predicted time assumes a usual "
    "core\nfor each thread, or with --profile what was measured.\n"
    "--precision fp64, fp32, bf16 or fp16. Numbers of 16 bits are computed with in fp32 and "
    "rounded "
    "when they are\nstored; weights have fp32 masters (docs/precision.md).\n\n"
    "Example: meshwright run --model gpt2-tiny --plan dp=2,pp=2,zero=1 --global-batch 8 --seq 64 "
    "--steps 3";

void check_count(std::int64_t processes, const Plan& plan, const std::string& words) {
  const std::size_t devices = devices_of(plan).size();
  if (static_cast<std::size_t>(processes) == devices) return;
  throw UsageError(
      fmt::format("{}; the plan has {} devices, and each is a process", words, devices));
}

// GPUs have memory of their own, and say what they have of it when it is taken.
void say_memory(const RunCommandOptions& options, const PreparedRun& prepared,
                const Session& session) {
  if (options.device == "cuda") return;
  const Bytes needed = memory_needed(prepared.programs), available = available_memory();
  if (!session.quiet) {
    fmt::print(stderr, "memory: {} needed, {} available\n", to_text(needed), to_text(available));
  }
  check_memory(needed, available);
  if (!options.processes) check_addresses(prepared.programs);
}

WatchLimits watch_limits_of(const RunCommandOptions& options) {
  return {Seconds(options.lost_after), Seconds(options.stuck_after)};
}

// The device of a process, until the run's end.
void train_device(const RunCommandOptions& options, const PlannedRun& run,
                  const ProcessPlace& place) {
  const auto devices = devices_of(run.plan());
  const Program program = lower(run.model(), run.plan(), devices.at(place.process));
  run_device(place.member, {program, devices, place.process, place.machines}, settings_of(options),
             run_options_of(options, run), random_weights(options.seed),
             RandomTokens(options.seed, run.vocabulary()));
}

void train_in_child(const RunCommandOptions& options, const Session& session,
                    const ChildPlace& child) {
  work_as_child(child, [&](const ProcessPlace& place) {
    const PlannedRun run(options, session);
    train_device(options, run, place);
  });
}

// The first process prints what comes of it.
void train_in_cluster(RunCommandOptions options, const Session& session,
                      const LaunchedPlace& launched) {
  options.launched = true;
  std::optional<PlannedRun> run;
  std::optional<PreparedRun> prepared;
  std::optional<StepLog> log;
  const ProcessWork work = [&](const ProcessPlace& place) {
    run.emplace(options, session);
    check_count(static_cast<std::int64_t>(place.count), run->plan(),
                fmt::format("{} processes were started", place.count));
    if (place.process == 0) {
      prepared.emplace(prepare_run(*run));
      if (options.trace) check_writable(*options.trace);
      log.emplace(options, *run, *prepared, session);
    }
    train_device(options, *run, place);
  };
  const StepProgress progress = [&](std::int64_t step, const StepResult& done) {
    log->add(step, done);
  };
  const auto result = work_in_cluster(launched, watch_limits_of(options), progress, work);
  if (result) show_run(options, session, *run, *prepared, *result);
}

RunResult train_here(const RunCommandOptions& options, const PlannedRun& run,
                     const PreparedRun& prepared, const StepProgress& progress) {
  if (options.processes) {
    return watch_processes(prepared.programs.size(), watch_limits_of(options), progress);
  }
  return run_threads(prepared.programs, settings_of(options), run_options_of(options, run),
                     random_weights(options.seed), RandomTokens(options.seed, run.vocabulary()), {},
                     progress);
}

void train(const RunCommandOptions& options, const Session& session) {
  if (const auto place = child_place()) return train_in_child(options, session, *place);
  const auto launched = launched_without(options.processes);
  if (launched && !options.dry_run) return train_in_cluster(options, session, *launched);
  const PlannedRun run(options, session);
  if (options.processes) {
    check_count(*options.processes, run.plan(), fmt::format("--processes {}", *options.processes));
  }
  if (options.dry_run) return dry_run(run, options.device == "cuda", session);
  const PreparedRun prepared = prepare_run(run);
  if (options.trace) check_writable(*options.trace);
  say_memory(options, prepared, session);
  StepLog log(options, run, prepared, session);
  const RunResult result =
      train_here(options, run, prepared,
                 [&](std::int64_t step, const StepResult& done) { log.add(step, done); });
  show_run(options, session, run, prepared, result);
}

}  // namespace

void add_run_command(Command& program, Session& session) {
  Command command = program.subcommand(
      "run", "Trains by a plan, with threads or processes as devices", kRunFooter);
  const auto options = std::make_shared<RunCommandOptions>();
  add_plan_options(command, options->plan);
  command.text("--plan", options->plan.plan, kPlanAbout);
  command.text("--device", options->device, "cpu (if not given) or cuda: GPUs, one for each device")
      .one_of({"cpu", "cuda"});
  command.flag("--cuda-graphs", options->cuda.graphs,
               "With --device cuda: capture a step once and launch it as CUDA graphs from then on");
  command.number("--steps", options->steps, "How many").with_default().positive();
  command.number("--seed", options->seed, "Of weights, data and dropout").with_default();
  command.number("--learning-rate", options->learning_rate, "Of AdamW")
      .with_default()
      .at_least_zero();
  command.number("--clip", options->clip, "Largest norm of all gradients")
      .with_default()
      .positive();
  command
      .number("--loss-scale", options->loss_scale,
              "fp16: what the loss is multiplied by at first, a power of 2 (65536 if not given); "
              "halved when gradients overflow, and that step changes no weight")
      .positive();
  command
      .number("--loss-scale-steps", options->loss_scale_steps,
              "fp16: good steps in a row after which the scale is doubled (2000 if not given)")
      .positive();
  command.text("--profile", options->profile,
               "Predict with what `benchmark` measured, not for a usual core");
  command.text("--metrics", options->metrics, "Write one JSON object a step to this file");
  command.text("--trace", options->trace, "Write the last step's timeline for ui.perfetto.dev");
  command
      .number("--processes", options->processes,
              "Have a process for each device, which must be so many")
      .positive();
  command
      .number("--lost-after", options->lost_after,
              "Seconds without a sign of life after which a process is given up")
      .with_default()
      .positive();
  command
      .number("--stuck-after", options->stuck_after,
              "Seconds at one task, beyond what it takes by itself at 1 GFLOP/s and 10 MB/s, after "
              "which a process that lives is given up")
      .with_default()
      .positive();
  command.flag("--dry-run", options->dry_run,
               "Lower and check the programs of all devices, however many, and predict");
  add_json_option(command, session);
  command.runs([options, &session] { train(*options, session); });
}

}  // namespace meshwright

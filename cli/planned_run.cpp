#include "cli/planned_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "cli/library_folders.h"
#include "cli/model_option.h"
#include "cli/profile_option.h"
#include "cli/software_option.h"
#include "costmodel/base/input_error.h"
#include "costmodel/cluster/local_cluster.h"
#include "costmodel/probe/profile_cluster.h"
#include "executor/cpu/kernels.h"
#include "executor/cuda_loader.h"
#include "executor/data_source.h"
#include "executor/host_memory.h"
#include "executor/process/machine.h"
#include "simulator/program/check_program.h"
#include "simulator/report/predict.h"

namespace meshwright {
namespace {

bool is_cuda(const RunCommandOptions& options) { return options.device == "cuda"; }

void check_graphs(const RunCommandOptions& options) {
  if (!options.cuda.graphs || is_cuda(options)) return;
  throw UsageError("--cuda-graphs: only GPUs have them, see --device cuda");
}

void check_runnable(const Plan& plan, bool cuda) {
  const bool stored = plan.precision == Precision::BF16 || plan.precision == Precision::FP16 ||
                      plan.precision == Precision::FP32 || plan.precision == Precision::FP64;
  if (cuda && !stored) {
    throw UsageError(fmt::format("precision {}: --device cuda runs bf16, fp16, fp32 and fp64",
                                 to_text(plan.precision)));
  }
  if (!cuda && !has_kernels(plan.precision)) {
    throw UsageError(
        fmt::format("precision {}: CPUs run fp64, fp32, bf16 and fp16", to_text(plan.precision)));
  }
  if (plan.kernels != KernelSet::Executor) {
    throw UsageError(
        fmt::format("kernels {}: only those named executor run here, others can be "
                    "simulated",
                    to_text(plan.kernels)));
  }
}

void check_loss_scale(const RunCommandOptions& options, Precision precision) {
  if (!options.loss_scale && !options.loss_scale_steps) return;
  if (!skips_steps(precision)) {
    throw UsageError(fmt::format("precision {}: only the loss of fp16 is scaled, see --loss-scale",
                                 to_text(precision)));
  }
  const double scale = options.loss_scale.value_or(kLeastLossScale);
  int exponent = 0;
  if (scale >= kLeastLossScale && scale <= kMostLossScale && std::frexp(scale, &exponent) == 0.5) {
    return;
  }
  throw UsageError(fmt::format("--loss-scale {}: expected a power of 2 from {} to {}", scale,
                               kLeastLossScale, kMostLossScale));
}

LossScaling loss_scaling_of(const RunCommandOptions& options) {
  LossScaling scaling;
  scaling.first = options.loss_scale.value_or(scaling.first);
  scaling.good_steps = options.loss_scale_steps.value_or(scaling.good_steps);
  return scaling;
}

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
  // Threads of one process are fewer; others are on machines of their own, or only checked.
  const std::int64_t most = options.dry_run || options.launched ? 65536 : 256;
  if (devices > most) {
    throw UsageError(fmt::format("--plan {}: {} devices; one process runs at most {}",
                                 printable(options.plan.plan), devices, most));
  }
  return options.profile ? cluster_of_profile(profile, *options.profile, devices)
                         : local_cluster(devices, total_memory());
}

}  // namespace

PlannedRun::PlannedRun(const RunCommandOptions& options, const Session& session) {
  require_given({{"--model", !options.plan.model.empty()}, {"--plan", !options.plan.plan.empty()}});
  const Software software = software_from_option(kOwnSoftware, session);
  const OpGraph graph = model_from_option(options.plan.model, session);
  const AskedPlan asked = asked_plan(options.plan, graph, software.plan, Precision::FP32);
  const Profile profile =
      options.profile ? profile_from_option(*options.profile, session) : Profile{};
  cluster_ = cluster_for(options, asked, profile);
  vocabulary_ = vocabulary_of(graph, options.plan.model);
  model_ = make_model(graph);
  setting_.emplace(
      make_setting(model_, cluster_, software, read_fits(session.data / "fits.json"), profile));
  plan_ = plan_for(asked, options.plan, *setting_, true);
  identity_ = identity_of(plan_, graph.dims);
  check_runnable(plan_, is_cuda(options));
  check_graphs(options);
  check_loss_scale(options, plan_.precision);
  check_positions(graph, plan_, options.plan.model);
}

PreparedRun prepare_run(const PlannedRun& run) {
  Represented all = represent_all(run.model(), run.plan(), run.cluster());
  if (const auto problems = check_programs(all.programs); !problems.empty()) {
    throw std::logic_error(fmt::format("{}", fmt::join(problems, "; ")));
  }
  PreparedRun prepared;
  prepared.predicted = play(all, run.plan(), run.setting()).report;
  prepared.programs = std::move(all.programs);
  prepared.overheads = overheads_of(run.plan(), run.setting());
  return prepared;
}

StepSettings settings_of(const RunCommandOptions& options) {
  return {.seed = options.seed, .learning_rate = options.learning_rate, .clip = options.clip};
}

RunOptions run_options_of(const RunCommandOptions& options, const PlannedRun& run) {
  RunIdentity identity = run.identity();
  const LossScaling scaling = loss_scaling_of(options);
  identity.settings = fmt::format("{} steps, seed {}, learning rate {}, clip {}", options.steps,
                                  options.seed, options.learning_rate, options.clip);
  if (skips_steps(run.plan().precision)) {
    identity.settings +=
        fmt::format(", loss scale {} doubled after {} steps", scaling.first, scaling.good_steps);
  }
  RunOptions made{.steps = options.steps, .identity = identity, .loss_scaling = scaling};
  if (is_cuda(options)) {
    made.make_device = cuda_devices(library_folders(), MESHWRIGHT_VERSION, devices_of(run.plan()),
                                    machine_clock, options.cuda);
  }
  return made;
}

}  // namespace meshwright

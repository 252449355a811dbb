#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "costmodel/base/input_error.h"
#include "planner/export/launch.h"
#include "planner/export/target.h"

namespace meshwright {
namespace {

// A model is called as the folder of its config.json is, and plans are for models of that name.
bool is_folder_name(std::string_view name) {
  return !name.empty() && !name.starts_with('.') && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  });
}

void check_own_model(Refusals& refusals, const DecoderSpec&, const ExportSetting& setting) {
  if (is_folder_name(setting.model.name)) return;
  refuse(refusals, "model", printable(setting.model.name),
         "expected a name of letters, digits, '.', '-' and '_', since a folder is called so");
}

// Processes are numbered as devices are, and a node's devices have its processes.
struct ProcessShape {
  std::int64_t count = 1, nodes = 1;
  std::optional<std::int64_t> on_each;  // none: not equally many
};

ProcessShape process_shape(const Export& what) {
  const Cluster& cluster = what.setting.cluster;
  ProcessShape shape{.count = what.launch.world()};
  std::int64_t left = shape.count;
  for (std::size_t node = 0; left > 0; ++node) {
    const auto here =
        std::min(left, static_cast<std::int64_t>(devices_of(cluster, NodeId(node)).count));
    shape.on_each = node == 0 || shape.on_each == here ? std::optional(here) : std::nullopt;
    shape.nodes = static_cast<std::int64_t>(node) + 1;
    left -= here;
  }
  return shape;
}

std::string slurm_script(const Export& what) {
  const ProcessShape shape = process_shape(what);
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "#SBATCH --nodes={}\n"
      "#SBATCH --ntasks={}\n"
      "{}"
      "{}"
      "# A process for each device. Submit it in this folder, which all nodes must see:\n"
      "#   sbatch train.sbatch --steps 1000\n"
      "set -euo pipefail\n"
      "exec srun --kill-on-bad-exit=1 bash train.sh \"$@\"\n",
      shape.nodes, shape.count,
      shape.on_each ? fmt::format("#SBATCH --ntasks-per-node={}\n", *shape.on_each) : "",
      comment_text(about_text(what)));
}

std::string mpirun_script(const Export& what) {
  const ProcessShape shape = process_shape(what);
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "{}"
      "# A process for each device, on this machine, or on HOSTS: node1,node2,...\n"
      "set -euo pipefail\n"
      "exec mpirun -np {} ${{HOSTS:+--host \"${{HOSTS//,/:{},}}:{}\"}} \\\n"
      "  bash train.sh \"$@\"\n",
      comment_text(about_text(what)), shape.count, shape.on_each.value_or(shape.count),
      shape.on_each.value_or(shape.count));
}

std::vector<ExportedFile> write_executor(const Export& what) {
  const NodeScript script{
      .about = about_text(what) +
               "\nDevices are threads of one process; with --processes N, or under mpirun or srun, "
               "a\nprocess each. Words given to it are added: --steps 1000",
      .starter = "meshwright run",
      .program = fmt::format("--model {}/config.json --plan plan.json", what.setting.model.name)};
  std::vector<ExportedFile> files = {
      {"train.sh", node_script(script), true},
      {what.setting.model.name + "/config.json", what.setting.decoder->config}};
  if (what.launcher == Launcher::Slurm) {
    files.push_back({"train.sbatch", slurm_script(what), true});
  } else if (what.launcher == Launcher::Mpirun) {
    files.push_back({"train_mpi.sh", mpirun_script(what), true});
  }
  return files;
}

std::string start_executor(const Export& what) {
  switch (what.launcher) {
    case Launcher::Torchrun:
      return "bash train.sh --steps 50";
    case Launcher::Slurm:
      return "sbatch train.sbatch --steps 50";
    case Launcher::Mpirun:
      return "bash train_mpi.sh --steps 50";
  }
  return "";
}

std::vector<std::string> executor_notes(const Export& what) {
  return {fmt::format(
      "`meshwright run` has the plan's {} devices as threads of one process, with `--processes {}` "
      "as processes of this machine, and under `mpirun` or `srun` as processes of a cluster.",
      what.launch.world(), what.launch.world())};
}

}  // namespace

TargetWriter executor_writer() {
  return {.target = {"executor", "1", "meshwright", "what `meshwright run` reads"},
          .any_model = true,
          .abilities = {.precisions = {Precision::FP32, Precision::FP64, Precision::BF16,
                                       Precision::FP16},
                        .narrow_gradients = {Precision::BF16, Precision::FP16},
                        .kernels = {KernelSet::Executor},
                        .orders = {},
                        .heads = HeadRule::Uneven,
                        .tensor_forms = true,
                        .experts = true,
                        .why_no_capacity = "",
                        .contexts = {Context::Ring, Context::Ulysses, Context::DoubleRing,
                                     Context::RingSelfAttention},
                        .heads_in_ring = true,
                        .schedules = {Schedule::OneForwardOneBackward, Schedule::GPipe,
                                      Schedule::Interleaved},
                        .any_chunks = true,
                        .any_layers = true,
                        .zero = {0, 1, 2, 3},
                        .zero_with_pipeline = {0, 1, 2, 3},
                        .shard_with = {1, 2, 3},
                        .recomputes = {Recompute::None, Recompute::Selective, Recompute::Products,
                                       Recompute::Uniform, Recompute::First, Recompute::Drop},
                        .segments = true,
                        .reruns = {true, false},
                        .offload_optimizer = true,
                        .offload_activations = true,
                        .overlaps = {true, false},
                        .reshards = {true, false},
                        .any_prefetch = true},
          .rules = {},
          .check_model = check_own_model,
          .write = write_executor,
          .start = start_executor,
          .notes = executor_notes};
}

}  // namespace meshwright

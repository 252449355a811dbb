#include "planner/export/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "costmodel/base/input_error.h"
#include "planner/export/quoting.h"

namespace meshwright {
namespace {

// Devices in the order of ranks.
std::vector<DeviceId> ranked_devices(const PlanChoices& choices, const Cluster& cluster,
                                     RankOrder order) {
  const bool pipeline_last = order == RankOrder::TensorDataPipeline;
  std::vector<DeviceId> devices;
  for (std::int64_t i = 0; i < choices.dp * choices.pp; ++i) {
    const std::int64_t replica = pipeline_last ? i % choices.dp : i / choices.pp;
    const std::int64_t stage = pipeline_last ? i / choices.dp : i % choices.pp;
    for (std::int64_t part = 0; part < choices.cp * choices.tp; ++part) {
      devices.push_back(
          device_of(choices, cluster, {stage, replica, part / choices.tp, part % choices.tp}));
    }
  }
  return devices;
}

// Processes are numbered through the nodes, as many on each, and have the node's first devices.
bool is_started_so(const std::vector<DeviceId>& devices, const Cluster& cluster,
                   std::int64_t on_each) {
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    const auto node = static_cast<std::size_t>(rank) / static_cast<std::size_t>(on_each);
    const DeviceRange range = devices_of(cluster, NodeId(node));
    const std::size_t local = rank % static_cast<std::size_t>(on_each);
    if (local >= range.count || devices[rank].index() != range.first + local) return false;
  }
  return true;
}

// How many of the devices each node has; none: not equally many.
std::optional<std::int64_t> on_each_node(const std::vector<DeviceId>& devices,
                                         const Cluster& cluster) {
  std::map<std::size_t, std::int64_t> counts;
  for (const DeviceId device : devices) ++counts[node_of(cluster, device).index()];
  for (const auto& [node, count] : counts) {
    if (count != counts.begin()->second) return std::nullopt;
  }
  return counts.begin()->second;
}

// An option and its values on a line each.
std::string array_text(const OptionGroup& group) {
  std::string text = fmt::format("# {}\n{}=(", group.about, group.name);
  for (const std::string& word : group.words) {
    text += word.starts_with("--") || text.ends_with('(') ? "\n  " : " ";
    text += shell_word(word);
  }
  return text + "\n)\n";
}

std::string slurm_text(const Export& what) {
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "#SBATCH --nodes={}\n"
      "#SBATCH --ntasks-per-node=1\n"
      "#SBATCH --gpus-per-node={}\n"
      "#SBATCH --exclusive\n"
      "{}"
      "# Submit it in this folder: sbatch train.sbatch\n"
      "set -euo pipefail\n"
      "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
      "export MASTER_ADDR\n"
      "exec srun bash -c 'NODE_RANK=$SLURM_NODEID exec bash train.sh \"$@\"' train.sh \"$@\"\n",
      what.launch.nodes, what.launch.devices_per_node, comment_text(about_text(what)));
}

std::string mpirun_text(const Export& what) {
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "{}"
      "# One process of MPI on each node starts train.sh there; HOSTS: node1,node2,...\n"
      "set -euo pipefail\n"
      ": \"${{HOSTS:?the {} nodes, the first one first: node1,node2}}\"\n"
      "export MASTER_ADDR=\"${{HOSTS%%,*}}\"\n"
      "exec mpirun -np {} --host \"$HOSTS\" --map-by ppr:1:node -x MASTER_ADDR \\\n"
      "  bash -c 'NODE_RANK=$OMPI_COMM_WORLD_RANK exec bash train.sh \"$@\"' train.sh \"$@\"\n",
      comment_text(about_text(what)), what.launch.nodes, what.launch.nodes);
}

}  // namespace

std::variant<LaunchShape, Refusal> launch_shape(const Abilities& abilities,
                                                const PlanChoices& choices,
                                                const Cluster& cluster) {
  const auto devices = ranked_devices(choices, cluster, RankOrder::TensorDataPipeline);
  const std::string value =
      choices.place.empty() ? "devices in their order" : to_text(choices.place);
  const auto count = static_cast<std::int64_t>(devices.size());
  const auto is_beyond = [&](DeviceId device) {
    return static_cast<std::int64_t>(device.index()) >= device_count(cluster);
  };
  if (std::ranges::any_of(devices, is_beyond)) {
    return Refusal{"place", value, fmt::format("the cluster has no such {} devices", count)};
  }
  const auto on_each = on_each_node(devices, cluster);
  if (!on_each) {
    return Refusal{"place", value,
                   fmt::format("{} devices are not equally many of each node, but as many "
                               "processes are started on each",
                               count)};
  }
  for (const RankOrder order : abilities.orders) {
    if (is_started_so(ranked_devices(choices, cluster, order), cluster, *on_each)) {
      return LaunchShape{count / *on_each, *on_each, order};
    }
  }
  return Refusal{"place", value,
                 abilities.orders.size() > 1
                     ? "its ranks count through tp, then dp and pp, in either order"
                 : abilities.orders.front() == RankOrder::TensorDataPipeline
                     ? "its ranks count through tp, then dp, then pp"
                     : "its ranks count through tp, then pp, then dp"};
}

std::string comment_text(const std::string& text) {
  std::string lines = "# ";
  for (const char c : text) {
    lines += c;
    if (c == '\n') lines += "# ";
  }
  return lines + '\n';
}

std::string node_script(const NodeScript& script) {
  std::string text =
      fmt::format("#!/usr/bin/env bash\n{}set -euo pipefail\n", comment_text(script.about));
  for (const auto& [name, about] : script.needs) {
    text += fmt::format(": \"${{{}:?{}}}\"\n", name, about);
  }
  for (const auto& [name, value] : script.environment) {
    text += fmt::format("export {}={}\n", name, shell_word(value));
  }
  std::string arrays;
  for (const OptionGroup& group : script.options) {
    text += fmt::format("\n{}", array_text(group));
    arrays += fmt::format(" \\\n  \"${{{}[@]}}\"", group.name);
  }
  if (!script.data.words.empty()) {
    text += fmt::format("\n{}", array_text(script.data));
    text += fmt::format("if [ $# -gt 0 ]; then {}=(\"$@\"); fi\n", script.data.name);
    arrays += fmt::format(" \\\n  \"${{{}[@]}}\"", script.data.name);
  } else {
    arrays += " \\\n  \"$@\"";
  }
  return text + fmt::format("\nexec {} \\\n  {}{}\n", script.starter, script.program, arrays);
}

std::string torchrun_words(const LaunchShape& launch) {
  if (launch.nodes == 1) {
    return fmt::format("torchrun --standalone --nnodes 1 --nproc-per-node {}",
                       launch.devices_per_node);
  }
  return fmt::format(
      "torchrun --nnodes {} --nproc-per-node {} \\\n"
      "  --node-rank \"${{NODE_RANK:?the number of this node, from 0 to {}}}\" \\\n"
      "  --master-addr \"${{MASTER_ADDR:?the name of node 0}}\" \\\n"
      "  --master-port \"${{MASTER_PORT:-29500}}\"",
      launch.nodes, launch.devices_per_node, launch.nodes - 1);
}

std::vector<ExportedFile> launch_files(const Export& what, const NodeScript& script) {
  std::vector<ExportedFile> files = {{"train.sh", node_script(script), true}};
  if (what.launcher == Launcher::Slurm) files.push_back({"train.sbatch", slurm_text(what), true});
  if (what.launcher == Launcher::Mpirun) files.push_back({"train_mpi.sh", mpirun_text(what), true});
  return files;
}

std::string launch_command(const Export& what) {
  switch (what.launcher) {
    case Launcher::Slurm:
      return "sbatch train.sbatch";
    case Launcher::Mpirun:
      return "HOSTS=node0,node1 bash train_mpi.sh";
    case Launcher::Torchrun:
      break;
  }
  return what.launch.nodes == 1 ? "bash train.sh"
                                : "NODE_RANK=0 MASTER_ADDR=node0 bash train.sh   # on every node";
}

std::string about_text(const Export& what) {
  return fmt::format("{} by {} {}, written by meshwright export.\nplan {}",
                     printable(what.setting.model.name), what.target.name, what.target.version,
                     what.plan.choices_text);
}

}  // namespace meshwright

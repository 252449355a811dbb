#include "import/cluster/imported_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "costmodel/base/input_error.h"
#include "costmodel/base/presets.h"
#include "costmodel/cluster/cluster_name.h"
#include "costmodel/price/fitted_costs.h"
#include "import/cluster/described_node.h"
#include "import/cluster/host_files.h"
#include "import/cluster/known_devices.h"
#include "import/cluster/switch_levels.h"

namespace meshwright {
namespace {

// Files of one node need not be read again for each of a thousand nodes that they describe.
using FilesOfNode = std::vector<const FactFile*>;

struct AlikeHosts {
  FilesOfNode files;
  std::vector<std::string> hosts;
};

std::vector<AlikeHosts> alike_runs(const std::vector<HostFiles>& hosts) {
  std::vector<AlikeHosts> runs;
  for (const HostFiles& host : hosts) {
    if (runs.empty() || runs.back().files != host.files) runs.push_back({host.files, {}});
    runs.back().hosts.push_back(host.host);
  }
  return runs;
}

const KnownDevice& device_of(const MergedNode& node, const ClusterWishes& wishes,
                             const std::string& host) {
  if (!node.product) {
    if (wishes.device) {
      if (const KnownDevice* known = find_preset_device(*wishes.device)) return *known;
      throw InputError(fmt::format("--device {}: no preset of devices has this name",
                                   printable(*wishes.device)));
    }
    throw InputError(
        fmt::format("{}: no file names its devices; add nvidia-smi -q -x, or say which preset "
                    "describes them (--device a100-80)",
                    printable(host)));
  }
  const KnownDevice* known = find_known_device(node.product->value);
  if (!known && wishes.device) known = find_preset_device(*wishes.device);
  if (known) return *known;
  throw InputError(
      fmt::format("{}: no preset describes \"{}\"; write a cluster file by hand, or say which one "
                  "is near enough (--device a100-80)",
                  printable(node.product->source), printable(node.product->value)));
}

void compare_with_wish(const MergedNode& node, const KnownDevice& known,
                       const ClusterWishes& wishes, std::vector<std::string>& contradictions) {
  if (!node.product || !wishes.device || *wishes.device == known.preset) return;
  contradictions.push_back(
      fmt::format("devices: {} by {}, {} by --device; taken: {}", printable(node.product->value),
                  printable(node.product->source), printable(*wishes.device), known.preset));
}

// Its values without their sources, which name files: equal nodes have equal texts.
std::string values_text(const DescribedNode& node) {
  std::string text =
      fmt::format("{} {} {} {}", node.type.device.name, node.type.devices,
                  node.type.device.memory.value.value(), node.network_bandwidth.value.value());
  if (node.type.host) {
    text += fmt::format(" host {} {} {}", node.type.host->memory.value.value(),
                        node.type.host->bandwidth.value.value(),
                        node.type.host->devices_per_link.value);
  }
  for (const LinkLevel& level : node.type.levels) {
    text += fmt::format(" {} {} {} {}", level.name, level.span.value_or(0),
                        level.bandwidth.value.value(), level.oversubscription.value);
  }
  return text;
}

class ClusterMaker {
 public:
  ClusterMaker(const std::vector<FactFile>& files, const ClusterWishes& wishes,
               const std::filesystem::path& data)
      : files_(files), wishes_(wishes), data_(data) {}

  ImportedCluster make() {
    result_.cluster.name = wishes_.name;
    const auto hosts = files_of_hosts(files_, wishes_.nodes, result_.contradictions);
    for (const AlikeHosts& run : alike_runs(hosts)) add_nodes(run);
    compare_lists();
    add_network(hosts);
    share_memory();
    sort_types();
    return std::move(result_);
  }

 private:
  void add_nodes(const AlikeHosts& run) {
    const auto count = static_cast<std::int64_t>(run.hosts.size());
    const std::size_t type = type_of(run);
    auto& groups = result_.cluster.nodes;
    if (!groups.empty() && groups.back().type == type) {
      groups.back().count += count;
    } else {
      groups.push_back({type, count});
    }
  }

  std::size_t type_of(const AlikeHosts& run) {
    if (const auto known = types_by_files_.find(run.files); known != types_by_files_.end()) {
      return known->second;
    }
    const std::string host =
        run.hosts.size() == 1
            ? run.hosts.front()
            : fmt::format("{} and {} more", run.hosts.front(), run.hosts.size() - 1);
    MergedNode merged = merge_node(run.files, host, result_.contradictions);
    if (!merged.product) merged.product = measured_product();
    const KnownDevice& known = device_of(merged, wishes_, host);
    compare_with_wish(merged, known, wishes_, result_.contradictions);
    const Cluster preset = find_cluster(known.preset, data_);
    DescribedNode node = describe_node(merged, preset, result_.contradictions);
    const std::string values = values_text(node);
    const auto [entry, is_new] = types_by_values_.try_emplace(values, nodes_.size());
    if (is_new) {
      const auto same = [&](const DescribedNode& other) {
        return other.type.name == node.type.name;
      };
      if (std::ranges::any_of(nodes_, same)) node.type.name += fmt::format("-{}", nodes_.size());
      nodes_.push_back(std::move(node));
      presets_.push_back(preset);
    }
    return types_by_files_[run.files] = entry->second;
  }

  // The devices that a test of nccl-tests names.
  std::optional<Told<std::string>> measured_product() const {
    for (const FactFile& file : files_) {
      const auto* measured = std::get_if<Measurements>(&file.facts);
      if (!measured) continue;
      const std::string& name = measured->profile.provenances.front().machine;
      if (find_known_device(name)) return Told<std::string>{name, file.source};
    }
    return {};
  }

  // What a job's variables say.
  void compare_lists() {
    for (const FactFile& file : files_) {
      const auto* list = std::get_if<NodeList>(&file.facts);
      if (!list || !list->devices_per_node) continue;
      for (const DescribedNode& node : nodes_) {
        if (node.type.devices == *list->devices_per_node) continue;
        result_.contradictions.push_back(
            fmt::format("{}: SLURM_GPUS_ON_NODE is {}, nodes of {} have {} devices; taken: {}",
                        printable(file.source), *list->devices_per_node, node.type.name,
                        node.type.devices, node.type.devices));
      }
    }
  }

  void add_network(const std::vector<HostFiles>& hosts) {
    const DescribedNode& first = nodes_.front();
    Cluster& cluster = result_.cluster;
    cluster.network = presets_.front().network;
    LinkLevel& outer = cluster.network.back();
    outer.bandwidth = first.network_bandwidth;
    outer.rails = std::ranges::all_of(nodes_, &DescribedNode::rails);
    if (first.fabric) {
      outer.fabric = first.fabric;
      outer.latency = {usual_latency(first.fabric->value), Origin::Assumed,
                       fmt::format("usual for a hop over {}", to_text(first.fabric->value))};
    }
    for (const FactFile& file : files_) {
      if (const auto* tree = std::get_if<SwitchTree>(&file.facts)) {
        cluster.network =
            with_switches(cluster.network, *tree, file.source, hosts, result_.contradictions);
      }
    }
    for (DescribedNode& node : nodes_) {
      if (node.network_bandwidth.value != first.network_bandwidth.value) {
        for (const LinkLevel& level : cluster.network) {
          if (joins_nodes(level.fabric ? level.fabric->value : usual_fabric(true))) continue;
          node.type.network_bandwidth.emplace(level.name, node.network_bandwidth);
        }
      }
      cluster.node_types.push_back(node.type);
    }
  }

  // A file has one device of a name: the memory of the one that has least.
  void share_memory() {
    auto& types = result_.cluster.node_types;
    for (NodeType& one : types) {
      for (NodeType& other : types) {
        if (one.device.name != other.device.name || one.device == other.device) continue;
        const bool less = one.device.memory.value <= other.device.memory.value;
        (less ? other : one).device = (less ? one : other).device;
      }
    }
  }

  // As a reader of the file has them.
  void sort_types() {
    auto& types = result_.cluster.node_types;
    std::vector<std::string> names;
    for (const NodeType& type : types) names.push_back(type.name);
    std::ranges::sort(types, {}, &NodeType::name);
    for (NodeGroup& group : result_.cluster.nodes) {
      const auto found = std::ranges::find(types, names[group.type], &NodeType::name);
      group.type = static_cast<std::size_t>(found - types.begin());
    }
  }

  const std::vector<FactFile>& files_;
  const ClusterWishes& wishes_;
  const std::filesystem::path& data_;
  ImportedCluster result_;
  std::vector<DescribedNode> nodes_;
  std::vector<Cluster> presets_;
  std::map<FilesOfNode, std::size_t> types_by_files_;
  std::map<std::string, std::size_t> types_by_values_;
};

}  // namespace

ImportedCluster make_cluster(const std::vector<FactFile>& files, const ClusterWishes& wishes,
                             const std::filesystem::path& data) {
  ImportedCluster imported = ClusterMaker(files, wishes, data).make();
  compare_collectives(files, data, imported);
  return imported;
}

}  // namespace meshwright

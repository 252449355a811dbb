#include "import/cluster/described_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "costmodel/base/input_error.h"
#include "costmodel/cluster/cluster_shape.h"
#include "costmodel/probe/link_topology.h"
#include "import/cluster/known_devices.h"

namespace meshwright {
namespace {

template <class T>
Sourced<T> declared_by(T value, std::string_view what, const std::string& source) {
  return {value, Origin::Declared, fmt::format("{} in {}", what, source)};
}

template <class T>
Sourced<T> assumed_as(const Sourced<T>& preset, std::string_view name) {
  return {preset.value, Origin::Assumed,
          fmt::format("no file says; as the preset {}: {}", name, preset.source)};
}

// How many links of NVLink a device has: those of one pair where all go to a switch, since then
// every pair shows them all; else those to all others. `most` is what such a device has.
std::int64_t nvlinks_of(const std::vector<DevicePath>& paths, std::int64_t most) {
  std::int64_t sum = 0, least = 0;
  for (const DevicePath& path : paths) {
    if (path.links == 0) continue;
    sum += path.links;
    least = least == 0 ? path.links : std::min(least, path.links);
  }
  return sum > most ? least : sum;
}

// Groups that pairs of devices form: by the kind of their paths, nearest first. PCIe switches, one
// or several, are one kind, and so is everything that goes through a host bridge.
LinkTopology topology_of(const std::vector<std::vector<DevicePath>>& paths) {
  std::vector<LinkTime> links;
  for (std::size_t a = 0; a < paths.size(); ++a) {
    for (std::size_t b = a + 1; b < paths.size(); ++b) {
      const PathKind kind = paths[a][b].kind;
      const int rank = kind == PathKind::NvLink ? 0 : kind <= PathKind::Switches ? 1 : 2;
      // Far enough apart for a class each.
      links.push_back({.a = static_cast<std::int64_t>(a),
                       .b = static_cast<std::int64_t>(b),
                       .latency = Seconds(std::exp2(rank)),
                       .bandwidth = BytesPerSecond(1)});
    }
  }
  return find_topology(static_cast<std::int64_t>(paths.size()), links);
}

class NodeDescription {
 public:
  NodeDescription(const MergedNode& node, const Cluster& preset, std::vector<std::string>& notes)
      : node_(node), preset_(preset), notes_(notes), type_(preset.node_types.front()) {
    if (node.devices.value <= type_.devices) type_ = with_devices(type_, node.devices.value);
    type_.devices = node.devices.value;
  }

  DescribedNode describe() {
    set_memory();
    set_host();
    if (node_.paths) {
      set_levels();
    } else {
      assume_levels();
    }
    DescribedNode described{.type = type_, .network_bandwidth = network_bandwidth()};
    described.fabric = fabric();
    const std::size_t cards = node_.nics ? near_cards().size() : 0;
    described.rails = preset_.network.back().rails &&
                      (!node_.nics || cards >= static_cast<std::size_t>(type_.devices));
    return described;
  }

 private:
  const std::string& name() const { return preset_.name; }

  void set_memory() {
    if (!node_.memory) return;
    const Bytes expected = type_.device.memory.value;
    if (std::abs(node_.memory->value / expected - 1) > 0.05) {
      notes_.push_back(fmt::format("memory of a device: {} by {}, {} by the preset {}; taken: {}",
                                   to_text(node_.memory->value), printable(node_.memory->source),
                                   to_text(expected), name(), to_text(node_.memory->value)));
    }
    type_.device.memory = {node_.memory->value, Origin::Measured,
                           "what the driver reports, in " + node_.memory->source};
  }

  void set_host() {
    if (!type_.host) return;
    Host& host = *type_.host;
    if (node_.host_memory) {
      host.memory = {node_.host_memory->value, Origin::Measured,
                     "of all NUMA nodes in " + node_.host_memory->source};
    } else {
      host.memory = assumed_as(host.memory, name());
    }
    // What is faster than PCIe can be is a link between chips (NVLink-C2C).
    const bool chip_link = host.bandwidth.value > 130.0_GBps;
    if (node_.pcie && !chip_link) {
      host.bandwidth =
          declared_by(bandwidth_of(node_.pcie->value), pcie_text(), node_.pcie->source);
    }
    if (node_.devices_per_link) {
      host.devices_per_link =
          declared_by(node_.devices_per_link->value, "the tree of PCIe switches",
                      node_.devices_per_link->source);
    }
    host.devices_per_link.value = std::min(host.devices_per_link.value, type_.devices);
  }

  std::string pcie_text() const {
    return fmt::format("PCIe {}.0 x{}", node_.pcie->value.generation, node_.pcie->value.lanes);
  }

  void assume_levels() {
    for (LinkLevel& level : type_.levels) {
      level.bandwidth = assumed_as(level.bandwidth, name());
      level.oversubscription = assumed_as(level.oversubscription, name());
    }
  }

  void set_levels() {
    const std::vector<LinkLevel> usual = type_.levels;
    const LinkTopology topology = topology_of(node_.paths->value);
    type_.levels.clear();
    std::int64_t covered = 1;
    for (std::size_t i = 0; i < topology.classes.size() && covered < type_.devices; ++i) {
      const auto& [a, b] = topology.classes[i].pairs.front();
      const PathKind kind =
          node_.paths->value[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)].kind;
      const auto span = span_of(topology.groups[i]);
      if (!span) {
        notes_.push_back(fmt::format(
            "{}: groups of devices that {} joins are not equal runs of neighbours, so the cluster "
            "has no level for them",
            printable(node_.paths->source), kind == PathKind::NvLink ? "NVLink" : "a PCIe switch"));
        continue;
      }
      type_.levels.push_back(level_of(kind, *span, covered, usual));
      covered = *span;
    }
    if (!topology.nested) {
      notes_.push_back(fmt::format(
          "{}: not every two devices of a group are joined directly; the group is one level",
          printable(node_.paths->source)));
    }
  }

  // `inside` is how many devices a group of the level inside has.
  LinkLevel level_of(PathKind kind, std::int64_t span, std::int64_t inside,
                     const std::vector<LinkLevel>& usual) {
    const Fabric fabric = kind == PathKind::NvLink ? Fabric::NvLink : Fabric::Pcie;
    const bool outermost = span == type_.devices;
    LinkLevel level{
        .name = kind == PathKind::NvLink     ? "nvlink"
                : kind <= PathKind::Switches ? "pcie-switch"
                                             : "pcie",
        .bandwidth = fabric == Fabric::NvLink ? nvlink_bandwidth(usual) : pcie_bandwidth(usual),
        .latency = {usual_latency(fabric), Origin::Assumed,
                    fmt::format("usual for a hop over {}", to_text(fabric))},
        .oversubscription = {1.0, Origin::Assumed,
                             "links of all devices at once are not in the files"}};
    level.fabric = declared_by(fabric, "paths between devices", node_.paths->source);
    for (const LinkLevel& same : usual) {
      if (!same.fabric || !joins_alike(same.fabric->value, fabric)) continue;
      level.fabric = same.fabric;
      level.latency = same.latency;
      level.oversubscription = same.oversubscription;
    }
    // All devices of a switch share its one link up.
    if (level.name == "pcie" && inside > 1 && !type_.levels.empty() &&
        type_.levels.back().name == "pcie-switch") {
      level.oversubscription = declared_by(static_cast<double>(inside),
                                           "devices that share a PCIe switch", node_.paths->source);
    }
    if (!outermost) level.span = span;
    return level;
  }

  static bool joins_alike(Fabric usual, Fabric found) {
    return usual == found || (usual == Fabric::NvLinkRack && found == Fabric::NvLink);
  }

  static const LinkLevel* level_with(const std::vector<LinkLevel>& levels, Fabric fabric) {
    for (const LinkLevel& level : levels) {
      if (level.fabric && joins_alike(level.fabric->value, fabric)) return &level;
    }
    return nullptr;
  }

  Sourced<BytesPerSecond> nvlink_bandwidth(const std::vector<LinkLevel>& usual) {
    const KnownDevice* known = find_preset_device(name());
    const double each = known && known->nvlink_gb_per_s > 0 ? known->nvlink_gb_per_s : 25;
    const LinkLevel* level = level_with(usual, Fabric::NvLink);
    const std::int64_t most =
        level ? std::llround(level->bandwidth.value.value() / (each * 1e9)) : 18;
    std::int64_t links = most;
    for (const auto& paths : node_.paths->value) links = std::min(links, nvlinks_of(paths, most));
    if (links < most) {
      notes_.push_back(fmt::format("{}: a device has {} NVLinks, by its data sheet {}; taken: {}",
                                   printable(node_.paths->source), links, most, links));
    }
    return declared_by(BytesPerSecond(static_cast<double>(links) * each * 1e9),
                       fmt::format("{} NVLinks of {} GB/s", links, each), node_.paths->source);
  }

  Sourced<BytesPerSecond> pcie_bandwidth(const std::vector<LinkLevel>& usual) {
    if (node_.pcie) {
      return declared_by(bandwidth_of(node_.pcie->value), pcie_text(), node_.pcie->source);
    }
    if (const LinkLevel* level = level_with(usual, Fabric::Pcie)) {
      return assumed_as(level->bandwidth, name());
    }
    return assumed_as(type_.host->bandwidth, name());
  }

  // Cards that are nearest to some device, with how many devices each is nearest to: NCCL lets a
  // device use the cards that are nearest to it, and other cards are for storage or logging in.
  std::vector<std::pair<std::size_t, std::vector<std::size_t>>> near_cards() const {
    const std::size_t devices = static_cast<std::size_t>(type_.devices);
    std::vector<std::vector<std::size_t>> users(node_.nics->value.size());
    for (std::size_t device = 0; device < devices; ++device) {
      if (node_.nic_paths.empty()) {
        for (auto& list : users) list.push_back(device);
        continue;
      }
      const auto& paths = node_.nic_paths[device];
      const PathKind nearest = *std::ranges::min_element(paths);
      for (std::size_t card = 0; card < paths.size(); ++card) {
        if (paths[card] == nearest) users[card].push_back(device);
      }
    }
    std::vector<std::pair<std::size_t, std::vector<std::size_t>>> near;
    for (std::size_t card = 0; card < users.size(); ++card) {
      if (!users[card].empty()) near.emplace_back(card, users[card]);
    }
    return near;
  }

  // What the device gets that gets least.
  Sourced<BytesPerSecond> network_bandwidth() {
    const Sourced<BytesPerSecond>& usual = preset_.network.back().bandwidth;
    if (!node_.nics) return assumed_as(usual, name());
    const auto near = near_cards();
    const bool known = std::ranges::all_of(
        near, [&](const auto& card) { return node_.nics->value[card.first].speed.has_value(); });
    std::vector<double> shares(static_cast<std::size_t>(type_.devices));
    for (const auto& [card, users] : near) {
      const BytesPerSecond speed = node_.nics->value[card].speed.value_or(usual.value);
      for (const std::size_t device : users) {
        shares[device] += (known ? speed : usual.value).value() / static_cast<double>(users.size());
      }
    }
    const double least = *std::ranges::min_element(shares);
    if (least != *std::ranges::max_element(shares)) {
      notes_.push_back(
          fmt::format("{}: devices are not equally near to network cards; taken: {} "
                      "each, what the farthest gets",
                      printable(node_.nics->source), to_text(BytesPerSecond(least))));
    }
    const std::string cards = fmt::format("{} network cards near {} devices in {}", near.size(),
                                          type_.devices, node_.nics->source);
    if (known) return {BytesPerSecond(least), Origin::Declared, cards};
    return {BytesPerSecond(least), Origin::Assumed,
            fmt::format("{}; their speed is not there, so each as the preset {} has it: {}", cards,
                        name(), usual.source)};
  }

  std::optional<Sourced<Fabric>> fabric() const {
    if (!node_.nics) return {};
    const auto all_start = [&](std::initializer_list<std::string_view> starts) {
      return std::ranges::all_of(node_.nics->value, [&](const NicFacts& nic) {
        return std::ranges::any_of(starts, [&](auto start) { return nic.name.starts_with(start); });
      });
    };
    const auto found = [&](Fabric fabric) {
      return declared_by(fabric, "names of network cards", node_.nics->source);
    };
    if (all_start({"efa", "rdmap"})) return found(Fabric::Efa);
    if (all_start({"cxi", "hsn"})) return found(Fabric::Slingshot);
    if (all_start({"eth", "ens", "enp", "eno", "bond"})) return found(Fabric::Ethernet);
    return {};
  }

  const MergedNode& node_;
  const Cluster& preset_;
  std::vector<std::string>& notes_;
  NodeType type_;
};

}  // namespace

DescribedNode describe_node(const MergedNode& node, const Cluster& preset,
                            std::vector<std::string>& notes) {
  return NodeDescription(node, preset, notes).describe();
}

}  // namespace meshwright

#include "costmodel/cluster/cluster_file.h"

#include <algorithm>

#include "costmodel/base/input_error.h"
#include "costmodel/base/sourced_input.h"

namespace meshwright {
namespace {

// Beyond these a number is a typing mistake, and sums over the largest cluster stay finite.
constexpr Bytes kMostMemory = Bytes(1ll << 46);
constexpr double kMostTotalMemory = 0x1p62;
constexpr BytesPerSecond kMostBandwidth = BytesPerSecond(1e18);
constexpr FlopsPerSecond kMostFlops = FlopsPerSecond(1e21);
constexpr DollarsPerHour kMostPrice = DollarsPerHour(1e6);
constexpr Seconds kMostLatency = Seconds(10);
constexpr double kMostOversubscription = 1e6;

Bytes memory(const JsonInput& input) { return read_amount(input, kMostMemory); }
BytesPerSecond bandwidth(const JsonInput& input) { return read_amount(input, kMostBandwidth); }
FlopsPerSecond flops(const JsonInput& input) { return read_amount(input, kMostFlops); }
DollarsPerHour price(const JsonInput& input) { return read_amount(input, kMostPrice); }
std::int64_t count(const JsonInput& input) { return input.integer(1, kMostDevices); }
double share(const JsonInput& input) {
  const double value = read_number(input, 0, 1);
  if (value == 0) input.fail("must be more than zero");
  return value;
}
double oversubscription(const JsonInput& input) {
  return read_number(input, 1, kMostOversubscription);
}
Seconds latency(const JsonInput& input) {
  const auto time = input.as<Seconds>();
  if (time > kMostLatency) input.fail("must be at most " + to_text(kMostLatency));
  return time;
}

const Sourced<double> kAssumedOversubscription = {
    1.0, Origin::Assumed, "not given; a level that carries all its devices at once"};
const Sourced<std::int64_t> kAssumedDevicesPerLink = {
    1, Origin::Assumed, "not given; every device has a host link of its own"};

std::string read_name(const JsonInput& input) {
  auto name = input.as<std::string>();
  if (name.empty() || name.size() > 60) input.fail_expected("a name of 1 to 60 characters");
  return name;
}

DeviceType read_device_type(const std::string& name, const JsonInput& input,
                            const std::string& source) {
  DeviceType device{
      .name = name,
      .memory = read_sourced(input.at("memory"), source, memory),
      .memory_bandwidth = read_sourced(input.at("memory_bandwidth"), source, bandwidth),
      .multiprocessors = find_sourced(input, "multiprocessors", source, count),
      .l2 = find_sourced(input, "l2", source, memory),
      .matmul_share = find_sourced(input, "matmul_share", source, share),
      .price = find_sourced(input, "price", source, price)};
  const JsonInput peak = input.at("peak");
  for (const auto& [text, value] : peak.fields()) {
    const auto precision = parse_precision(text);
    if (!precision) value.fail("no such precision; known: fp64, fp32, tf32, fp16, bf16, fp8");
    device.peak.emplace(*precision, read_sourced(value, source, flops));
  }
  if (device.peak.empty()) peak.fail("expected the peak of at least one precision");
  input.reject_unknown_fields();
  return device;
}

Host read_host(const JsonInput& input, std::int64_t devices, const std::string& source) {
  Host host{
      .memory = read_sourced(input.at("memory"), source, memory),
      .bandwidth = read_sourced(input.at("bandwidth"), source, bandwidth),
      .devices_per_link =
          find_sourced(input, "devices_per_link", source, count).value_or(kAssumedDevicesPerLink)};
  if (host.devices_per_link.value > devices) {
    input.at("devices_per_link").fail(fmt::format("the node has {} devices", devices));
  }
  input.reject_unknown_fields();
  return host;
}

Sourced<Seconds> assumed_latency(const std::optional<Sourced<Fabric>>& given, bool network) {
  const Fabric fabric = given ? given->value : usual_fabric(network);
  return {usual_latency(fabric), Origin::Assumed,
          fmt::format("not given; usual for a hop over {}", to_text(fabric))};
}

Fabric read_fabric(const JsonInput& input, bool network) {
  const auto fabric = parse_fabric(input.as<std::string>());
  if (fabric && (network ? between_nodes(*fabric) : inside_nodes(*fabric))) return *fabric;
  input.fail_expected(network ? "infiniband, roce, efa, slingshot, ethernet, nvlink or nvlink-rack"
                              : "nvlink, nvlink-rack, xgmi, pcie or memory");
}

LinkLevel read_level(const JsonInput& input, bool network, const std::string& source) {
  const auto fabric = find_sourced(
      input, "fabric", source, [&](const JsonInput& text) { return read_fabric(text, network); });
  LinkLevel level{
      .name = read_name(input.at("name")),
      .bandwidth = read_sourced(input.at("bandwidth"), source, bandwidth),
      .latency = find_sourced(input, "latency", source, latency)
                     .value_or(assumed_latency(fabric, network)),
      .fabric = fabric,
      .oversubscription = find_sourced(input, "oversubscription", source, oversubscription)
                              .value_or(kAssumedOversubscription)};
  if (const auto span = input.find("span")) level.span = count(*span);
  if (network) level.rails = input.value_or("rails", false);
  input.reject_unknown_fields();
  return level;
}

// A level's groups must be made of whole groups of the level inside it.
void check_nested(const JsonInput& input, const std::vector<LinkLevel>& levels) {
  const auto& inner = levels[levels.size() - 2];
  const auto& outer = levels.back();
  if (!inner.span) {
    input.fail(fmt::format("\"{}\" inside it already spans everything: give that one a span",
                           printable(inner.name)));
  }
  if (outer.span && (*outer.span <= *inner.span || *outer.span % *inner.span != 0)) {
    input.at("span").fail(
        fmt::format("{} is not a larger multiple of {}, the span of \"{}\" inside it", *outer.span,
                    *inner.span, printable(inner.name)));
  }
}

std::vector<LinkLevel> read_levels(const JsonInput& input, bool network,
                                   const std::string& source) {
  std::vector<LinkLevel> levels;
  for (const JsonInput& element : input.elements()) {
    levels.push_back(read_level(element, network, source));
    const auto same_name = [&](const LinkLevel& l) { return l.name == levels.back().name; };
    if (std::count_if(levels.begin(), levels.end(), same_name) > 1) {
      element.at("name").fail(fmt::format("a second level \"{}\"", printable(levels.back().name)));
    }
    if (levels.size() > 1) check_nested(element, levels);
  }
  return levels;
}

// `members` is how many devices or nodes the levels have to connect.
void check_covers(const JsonInput& input, std::string_view field,
                  const std::vector<LinkLevel>& levels, std::int64_t members,
                  std::string_view members_name) {
  if (members > 1 && levels.empty()) {
    input.fail(
        fmt::format("\"{}\" must say what connects the {} {}", field, members, members_name));
  }
  if (levels.empty() || !levels.back().span || *levels.back().span >= members) return;
  input.at(field).elements().back().at("span").fail(
      fmt::format("the outermost level spans {} of {} {}; leave the span out to span all",
                  *levels.back().span, members, members_name));
}

NodeType read_node_type(const std::string& name, const JsonInput& input,
                        const std::map<std::string, DeviceType>& devices,
                        const std::string& source) {
  const JsonInput device_name = input.at("device");
  const auto device = devices.find(device_name.as<std::string>());
  if (device == devices.end()) device_name.fail_expected("a name in \"device_types\"");
  NodeType node{.name = name, .device = device->second, .devices = count(input.at("devices"))};
  if (const auto host = input.find("host")) node.host = read_host(*host, node.devices, source);
  if (const auto levels = input.find("levels")) {
    node.levels = read_levels(*levels, false, source);
    for (std::size_t i = 0; i < node.levels.size(); ++i) {
      if (node.levels[i].span.value_or(1) <= node.devices) continue;
      levels->elements()[i].at("span").fail(
          fmt::format("{} is more than the node's {} devices", *node.levels[i].span, node.devices));
    }
  }
  check_covers(input, "levels", node.levels, node.devices, "devices");
  if (const auto network = input.find("network_bandwidth")) {
    for (const auto& [level, value] : network->fields()) {
      node.network_bandwidth.emplace(level, read_sourced(value, source, bandwidth));
    }
  }
  input.reject_unknown_fields();
  return node;
}

std::vector<NodeType> read_node_types(const JsonInput& root, const std::string& source) {
  std::map<std::string, DeviceType> devices;
  for (const auto& [name, input] : root.at("device_types").fields()) {
    devices.emplace(name, read_device_type(name, input, source));
  }
  std::vector<NodeType> types;
  for (const auto& [name, input] : root.at("node_types").fields()) {
    types.push_back(read_node_type(name, input, devices, source));
  }
  for (const auto& [name, input] : root.at("device_types").fields()) {
    const auto uses = [&](const NodeType& type) { return type.device.name == name; };
    if (std::none_of(types.begin(), types.end(), uses)) input.fail("no node type has this device");
  }
  return types;
}

std::vector<NodeGroup> read_nodes(const JsonInput& root, const std::vector<NodeType>& types) {
  std::vector<NodeGroup> groups;
  std::int64_t devices = 0;
  for (const JsonInput& input : root.at("nodes").elements()) {
    const auto name = input.required<std::string>("type");
    const auto type =
        std::find_if(types.begin(), types.end(), [&](const NodeType& t) { return t.name == name; });
    if (type == types.end()) input.at("type").fail_expected("a name in \"node_types\"");
    groups.push_back({static_cast<std::size_t>(type - types.begin()), count(input.at("count"))});
    devices += groups.back().count * type->devices;
    if (devices > kMostDevices) {
      input.fail(fmt::format("more than {} devices in all", kMostDevices));
    }
    input.reject_unknown_fields();
  }
  if (groups.empty()) root.at("nodes").fail("expected at least one group of nodes");
  return groups;
}

void check_used(const JsonInput& root, const Cluster& cluster) {
  for (std::size_t type = 0; type < cluster.node_types.size(); ++type) {
    const NodeType& node = cluster.node_types[type];
    const JsonInput input = root.at("node_types").at(node.name);
    const auto uses = [&](const NodeGroup& group) { return group.type == type; };
    if (std::none_of(cluster.nodes.begin(), cluster.nodes.end(), uses)) {
      input.fail("no group of nodes is of this type");
    }
    for (const auto& [name, value] : node.network_bandwidth) {
      const auto has_name = [&](const LinkLevel& level) { return level.name == name; };
      if (std::none_of(cluster.network.begin(), cluster.network.end(), has_name)) {
        input.at("network_bandwidth").at(name).fail("no network level has this name");
      }
    }
  }
}

// Totals are 64-bit counts of bytes.
void check_total_memory(const JsonInput& root, const Cluster& cluster) {
  double total = 0;
  for (const NodeGroup& group : cluster.nodes) {
    const NodeType& type = cluster.node_types[group.type];
    const double devices =
        static_cast<double>(type.device.memory.value.value()) * static_cast<double>(type.devices);
    const double host = type.host ? static_cast<double>(type.host->memory.value.value()) : 0;
    total += (devices + host) * static_cast<double>(group.count);
  }
  if (total > kMostTotalMemory) root.at("nodes").fail("more than 4 EiB of memory in all");
}

bool has_level(const Cluster& cluster, DeviceId device, const std::string& name) {
  const auto named = [&](const LinkLevel& level) { return level.name == name; };
  const NodeType& node = node_type_of(cluster, node_of(cluster, device));
  return std::ranges::any_of(node.levels, named) || std::ranges::any_of(cluster.network, named);
}

DeviceException read_exception(const JsonInput& input, const Cluster& cluster) {
  const auto number = input.at("device").integer(0, device_count(cluster) - 1);
  DeviceException exception{.device = DeviceId(static_cast<std::size_t>(number))};
  if (const auto speed = input.find("speed")) exception.speed = share(*speed);
  if (const auto links = input.find("bandwidth")) {
    for (const auto& [level, value] : links->fields()) {
      if (!has_level(cluster, exception.device, level)) {
        value.fail("no level with this name connects the device");
      }
      exception.bandwidth.emplace(level, bandwidth(value));
    }
  }
  if (exception.speed == 1 && exception.bandwidth.empty()) {
    input.fail("expected a \"speed\" or a \"bandwidth\" that differs");
  }
  input.reject_unknown_fields();
  return exception;
}

std::vector<DeviceException> read_exceptions(const JsonInput& input, const Cluster& cluster) {
  std::vector<DeviceException> exceptions;
  for (const JsonInput& element : input.elements()) {
    exceptions.push_back(read_exception(element, cluster));
    const auto same = [&](const DeviceException& other) {
      return other.device == exceptions.back().device;
    };
    if (std::ranges::count_if(exceptions, same) > 1) {
      element.at("device").fail("a second exception for this device");
    }
  }
  std::ranges::sort(exceptions, {}, &DeviceException::device);
  return exceptions;
}

Cluster read_cluster(const JsonInput& root) {
  if (root.required<std::string>("format") != "meshwright-cluster") {
    root.at("format").fail_expected("\"meshwright-cluster\"");
  }
  if (const JsonInput version = root.at("version"); version.as<std::int64_t>() != 1) {
    version.fail_expected("1, the version this program reads");
  }
  const auto source = root.value_or<std::string>("sources", "given in the cluster file");
  Cluster cluster{.name = read_name(root.at("name")),
                  .description = root.optional<std::string>("description"),
                  .node_types = read_node_types(root, source)};
  cluster.nodes = read_nodes(root, cluster.node_types);
  if (const auto network = root.find("network")) {
    cluster.network = read_levels(*network, true, source);
  }
  const auto exceptions = root.find("exceptions");
  root.reject_unknown_fields();
  check_covers(root, "network", cluster.network, node_count(cluster), "nodes");
  check_used(root, cluster);
  check_total_memory(root, cluster);
  if (exceptions) cluster.exceptions = read_exceptions(*exceptions, cluster);
  return cluster;
}

}  // namespace

Cluster read_cluster_file(const std::filesystem::path& file) {
  return read_cluster(JsonInput::read(file));
}

Cluster parse_cluster(std::string_view text, std::string source) {
  return read_cluster(JsonInput::parse(text, std::move(source)));
}

}  // namespace meshwright

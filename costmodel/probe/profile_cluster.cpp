#include "costmodel/probe/profile_cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/input_error.h"
#include "costmodel/cluster/local_cluster.h"
#include "costmodel/price/copy_fit.h"
#include "costmodel/price/transfer_cost.h"
#include "costmodel/probe/link_topology.h"

namespace meshwright {
namespace {

[[noreturn]] void refuse(const std::string& source, std::string_view problem) {
  throw InputError(fmt::format("{}: {}", printable(source), problem));
}

// The one machine of the profile that says how many devices it has.
const DeviceRecord& machine_in(const Profile& profile, const std::string& source) {
  if (profile.devices.empty()) {
    refuse(source, "describes no machine; `meshwright benchmark --into FILE` measures this one");
  }
  if (profile.devices.size() > 1) {
    refuse(source,
           fmt::format(
               "describes {} machines, expected one: {} and {}", profile.devices.size(),
               printable(profile.provenances[profile.devices[0].evidence.provenance].machine),
               printable(profile.provenances[profile.devices[1].evidence.provenance].machine)));
  }
  return profile.devices.front();
}

// Rows of the machine itself, not of what was imported beside.
struct MachineRows {
  const Profile& profile;
  const DeviceRecord& machine;

  bool has(const Evidence& evidence, const std::string& device) const {
    return evidence.provenance == machine.evidence.provenance && device == machine.device;
  }
  std::string source() const {
    const Provenance& who = profile.provenances[machine.evidence.provenance];
    return fmt::format("{}, {}", who.source, who.machine);
  }
  template <class T>
  Sourced<T> measured(T value) const {
    return {value, Origin::Measured, source()};
  }

  std::map<Precision, Sourced<FlopsPerSecond>> peaks() const {
    std::map<Precision, Sourced<FlopsPerSecond>> peaks;
    for (const KernelTime& row : profile.kernels) {
      if (!has(row.evidence, row.device) || row.kernel.kind != KernelKind::Matmul) continue;
      double flops = 2;
      for (const std::int64_t size : row.shape) flops *= static_cast<double>(size);
      const FlopsPerSecond rate(flops / row.time.value());
      const auto found = peaks.find(row.precision);
      if (found == peaks.end() || found->second.value < rate) {
        peaks.insert_or_assign(row.precision, measured(rate));
      }
    }
    return peaks;
  }

  // Two numbers read and one written, at the largest size.
  std::optional<Sourced<BytesPerSecond>> memory_bandwidth() const {
    const KernelTime* largest = nullptr;
    for (const KernelTime& row : profile.kernels) {
      if (!has(row.evidence, row.device) || row.kernel.kind != KernelKind::Add) continue;
      if (!row.kernel.variant.empty()) continue;
      if (!largest || largest->shape < row.shape) largest = &row;
    }
    if (!largest) return {};
    const Bytes moved = bytes_per_element(largest->precision) * largest->shape[0] * 3;
    return measured(moved / largest->time);
  }

  // The host's link such that it carries what the slower direction was measured to.
  Host host_with(Host host) const {
    std::optional<BytesPerSecond> slower;
    for (const FitParameter& row : profile.fits) {
      const bool copies = row.fit == copy_fit(CopyDirection::ToHost) ||
                          row.fit == copy_fit(CopyDirection::FromHost);
      if (!has(row.evidence, row.device) || !copies || row.parameter != kCopyBandwidth) continue;
      slower = slower ? std::min(*slower, BytesPerSecond(row.value)) : BytesPerSecond(row.value);
    }
    if (!slower) return host;
    const double share = host_link_capacity(host) / host.bandwidth.value;
    host.bandwidth = measured(*slower / share);
    return host;
  }

  LinkLevel level_of(const LinkClass& links, std::string name) const {
    return {.name = std::move(name),
            .bandwidth = measured(links.bandwidth),
            .latency = measured(links.latency),
            .oversubscription = {1.0, Origin::Assumed, "links were measured one at a time"}};
  }

  std::vector<LinkLevel> levels() const {
    std::vector<LinkTime> links;
    for (const LinkTime& row : profile.links) {
      if (has(row.evidence, row.device)) links.push_back(row);
    }
    const std::int64_t devices = machine.devices;
    if (static_cast<std::int64_t>(links.size()) != devices * (devices - 1) / 2) return {};
    const LinkTopology topology = find_topology(devices, links);
    std::vector<LinkLevel> result;
    for (std::size_t i = 0; i < topology.classes.size(); ++i) {
      const bool last = i + 1 == topology.classes.size();
      const auto span = span_of(topology.groups[i]);
      // Where levels cannot say what was found, only the slowest stays: it holds for every pair.
      if (!last && (!topology.nested || !span || *span == devices)) continue;
      result.push_back(level_of(topology.classes[i], last ? "memory" : fmt::format("near{}", i)));
      if (!last) result.back().span = span;
    }
    return result;
  }
};

}  // namespace

Cluster cluster_of_profile(const Profile& profile, const std::string& source,
                           std::optional<std::int64_t> devices) {
  const DeviceRecord& machine = machine_in(profile, source);
  const MachineRows rows{profile, machine};
  const auto bandwidth = rows.memory_bandwidth();
  const auto peaks = rows.peaks();
  if (!machine.memory || peaks.empty() || !bandwidth) {
    refuse(source, fmt::format("does not have all of a machine yet ({} missing); run `meshwright "
                               "benchmark` to its end",
                               !machine.memory ? "its memory is"
                               : peaks.empty() ? "products are"
                                               : "additions are"));
  }
  const std::int64_t count = devices.value_or(machine.devices);
  const Bytes all = *machine.memory * machine.devices;
  NodeType node{.name = "machine",
                .device = {.name = machine.device,
                           .memory = rows.measured(all / count),
                           .memory_bandwidth = *bandwidth,
                           .peak = peaks},
                .devices = count};
  node.host = rows.host_with(*local_cluster(count, all).node_types[0].host);
  if (count > 1) {
    node.levels = rows.levels();
    if (node.levels.empty()) node.levels = local_cluster(count, all).node_types[0].levels;
    if (count != machine.devices) node.levels.erase(node.levels.begin(), node.levels.end() - 1);
  }
  Cluster cluster{.name = "here", .node_types = {node}, .nodes = {{0, 1}}};
  if (!node.levels.empty()) cluster.network = {node.levels.back()};
  return cluster;
}

}  // namespace meshwright

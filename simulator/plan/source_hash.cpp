#include "simulator/plan/source_hash.h"

#include <fmt/format.h>

#include "costmodel/model/graph_file.h"
#include "simulator/program/hash.h"

namespace meshwright {
namespace {

std::string text_of(const Hash& hash) { return fmt::format("{:016x}", hash.value()); }

void add(Hash& hash, const LinkLevel& level) {
  hash.add(level.name);
  hash.add(fmt::format("{} {} {} {} {}", level.span.value_or(0), level.bandwidth.value.value(),
                       level.latency.value.value(), level.oversubscription.value, level.rails));
}

}  // namespace

std::string source_hash(const Model& model) {
  Hash hash;
  hash.add(graph_text(unroll(model)));
  return text_of(hash);
}

std::string source_hash(const Cluster& cluster) {
  Hash hash;
  for (const NodeType& type : cluster.node_types) {
    hash.add(type.name);
    hash.add(fmt::format("{} {} {}", type.devices, type.device.memory.value.value(),
                         type.device.memory_bandwidth.value.value()));
    for (const auto& [precision, peak] : type.device.peak) {
      hash.add(fmt::format("{} {}", to_text(precision), peak.value.value()));
    }
    for (const LinkLevel& level : type.levels) add(hash, level);
    for (const auto& [name, bandwidth] : type.network_bandwidth) {
      hash.add(fmt::format("{} {}", name, bandwidth.value.value()));
    }
  }
  for (const NodeGroup& group : cluster.nodes) {
    hash.add(fmt::format("{} {}", group.type, group.count));
  }
  for (const LinkLevel& level : cluster.network) add(hash, level);
  for (const DeviceException& exception : cluster.exceptions) {
    hash.add(fmt::format("{} {}", exception.device.index(), exception.speed));
    for (const auto& [name, bandwidth] : exception.bandwidth) {
      hash.add(fmt::format("{} {}", name, bandwidth.value()));
    }
  }
  return text_of(hash);
}

}  // namespace meshwright

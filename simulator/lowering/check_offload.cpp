#include "simulator/lowering/check_offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "costmodel/base/input_error.h"
#include "simulator/lowering/offload.h"

namespace meshwright {
namespace {

std::optional<DeviceId> device_without_host(const Plan& plan, const Cluster& cluster) {
  for (const DeviceId device : devices_of(plan)) {
    if (!node_type_of(cluster, node_of(cluster, device)).host) return device;
  }
  return std::nullopt;
}

std::optional<std::size_t> chunk_of_return(const Plan& plan, std::size_t back) {
  const auto found = std::ranges::find_if(plan.chunks, [&](const Chunk& chunk) {
    return back > chunk.first_op && back <= chunk.end_op;
  });
  if (found == plan.chunks.end()) return std::nullopt;
  return static_cast<std::size_t>(found - plan.chunks.begin());
}

// Of a chunk: what it keeps, and what of that has been named.
struct ChunkNames {
  std::set<std::string> kept, named = {};
};

}  // namespace

std::vector<std::string> check_hosts(const Plan& plan, const Cluster& cluster) {
  if (plan.offload.empty() && !plan.offload_optimizer) return {};
  const auto device = device_without_host(plan, cluster);
  if (!device) return {};
  return {fmt::format("offload: the node of device {} has no host to copy to", device->index())};
}

std::vector<std::string> check_offload(const Plan& plan, const PlannedGraph& planned,
                                       const Cluster& cluster) {
  std::vector<std::string> problems = check_hosts(plan, cluster);
  std::map<std::size_t, ChunkNames> chunks;
  for (const OffloadedTensors& tensors : plan.offload) {
    const auto chunk = chunk_of_return(plan, tensors.back);
    if (!chunk) {
      problems.push_back(fmt::format("offload: back at op {}, expected 1 to {}", tensors.back,
                                     plan.chunks.back().end_op));
      continue;
    }
    ChunkNames& names = chunks[*chunk];
    if (names.kept.empty()) {
      for (KeptBuffer& kept : kept_for_backward(planned, plan, *chunk)) {
        names.kept.insert(std::move(kept.name));
      }
    }
    for (const std::string& name : tensors.tensors) {
      if (!names.kept.contains(name)) {
        problems.push_back(
            fmt::format("offload: chunk {} keeps no {} for its backward", *chunk, printable(name)));
      } else if (!names.named.insert(name).second) {
        problems.push_back(fmt::format("offload: {} stands twice", printable(name)));
      }
    }
  }
  return problems;
}

}  // namespace meshwright

#include "simulator/report/host_use.h"

#include <cassert>
#include <map>

namespace meshwright {

std::optional<HostUse> fullest_host(const Timeline& timeline,
                                    std::span<const std::vector<DeviceId>> classes,
                                    const Cluster& cluster) {
  std::map<NodeId, Bytes> needed;
  for (std::size_t i = 0; i < timeline.devices.size(); ++i) {
    const DeviceTimeline& device = timeline.devices[i];
    if (device.host_peak == 0_B) continue;
    assert(!classes.empty() || device.count == 1);
    if (classes.empty()) {
      needed[node_of(cluster, device.device)] += device.host_peak;
      continue;
    }
    for (const DeviceId member : classes[i]) needed[node_of(cluster, member)] += device.host_peak;
  }
  std::optional<HostUse> fullest;
  for (const auto& [node, bytes] : needed) {
    const auto& host = node_type_of(cluster, node).host;
    assert(host);
    const HostUse use{node, bytes, host->memory.value};
    if (!fullest || use.needed / use.capacity > fullest->needed / fullest->capacity) fullest = use;
  }
  return fullest;
}

}  // namespace meshwright

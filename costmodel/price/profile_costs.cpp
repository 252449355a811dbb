#include "costmodel/price/profile_costs.h"

#include <algorithm>
#include <map>

namespace meshwright {

std::optional<GroupPlace> place_of(const Cluster& cluster, const std::vector<DeviceId>& group) {
  std::map<NodeId, std::int64_t> members;
  for (const DeviceId device : group) {
    ++members[node_of(cluster, device)];
    if (device_type_of(cluster, device).name != device_type_of(cluster, group[0]).name) return {};
  }
  const std::int64_t each = members.begin()->second;
  if (!std::ranges::all_of(members, [&](const auto& m) { return m.second == each; })) return {};
  return GroupPlace{.devices = static_cast<std::int64_t>(group.size()),
                    .nodes = static_cast<std::int64_t>(members.size())};
}

Price ProfileCosts::kernel(const Kernel& kernel, Precision precision, DeviceId device) const {
  const auto time = times_.kernel(device_type_of(cluster_, device).name, kernel, precision);
  Price price = otherwise_.kernel(kernel, precision, device);
  if (time) {
    price.time = *time;
    price.origin = PriceOrigin::Measured;
  }
  return price;
}

Price ProfileCosts::transfer(const Transfer& transfer, Precision precision) const {
  const auto place = place_of(cluster_, transfer.group);
  const Bytes bytes = bytes_of(transfer, precision);
  if (place && place->devices > 1) {
    const auto time = times_.transfer(device_type_of(cluster_, transfer.group[0]).name,
                                      transfer.kind, *place, bytes);
    if (time) return {.time = *time, .origin = PriceOrigin::Measured};
  }
  return otherwise_.transfer(transfer, precision);
}

}  // namespace meshwright

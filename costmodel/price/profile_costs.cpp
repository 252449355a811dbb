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

std::optional<Seconds> ProfileCosts::measured(TransferKind kind, Bytes size,
                                              const std::vector<DeviceId>& group) const {
  const auto place = place_of(cluster_, group);
  if (!place || place->devices == 1) return std::nullopt;
  return times_.transfer(device_type_of(cluster_, group[0]).name, kind, *place, size);
}

Price ProfileCosts::transfer(const Transfer& transfer, Precision precision) const {
  if (const auto time = measured(transfer.kind, bytes_of(transfer, precision), transfer.group)) {
    return {.time = *time, .origin = PriceOrigin::Measured};
  }
  // Beside what was measured another model must not say that more bytes take less time.
  Price price = otherwise_.transfer(transfer, precision);
  const auto place = place_of(cluster_, transfer.group);
  if (!place) return price;
  const auto limits = times_.transfer_limits(device_type_of(cluster_, transfer.group[0]).name,
                                             transfer.kind, *place, bytes_of(transfer, precision));
  if (limits.most) price.time = std::min(price.time, *limits.most);
  if (limits.least) price.time = std::max(price.time, *limits.least);
  return price;
}

}  // namespace meshwright

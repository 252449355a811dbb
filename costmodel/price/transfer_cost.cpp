#include "costmodel/price/transfer_cost.h"

#include <algorithm>
#include <span>

namespace meshwright {
namespace {

// Groups of a level are ranges, so the level that joins the ends joins what is between them. The
// slowest member sets the pace.
LinkSpeed slowest_link(const Cluster& cluster, std::span<const DeviceId> members) {
  const auto [first, last] = std::ranges::minmax(members);
  const auto id = level_between(cluster, first, last);
  if (!id) return {};
  BytesPerSecond bandwidth = bandwidth_of(cluster, *id, first);
  for (const DeviceId member : members) {
    bandwidth = std::min(bandwidth, bandwidth_of(cluster, *id, member));
  }
  const LinkLevel& links = level(cluster, *id);
  return {.bandwidth = bandwidth / links.oversubscription.value,
          .latency = links.latency.value,
          .fabric = fabric_of(cluster, *id)};
}

// Shows the group's members domain by domain.
template <class See>
void see_domains(const Cluster& cluster, std::vector<DeviceId> group, See see) {
  if (!std::ranges::is_sorted(group)) std::ranges::sort(group);
  for (std::size_t first = 0, end = 0; first < group.size(); first = end) {
    const DeviceRange domain = domain_of(cluster, group[first]);
    while (end < group.size() && domain.contains(group[end])) ++end;
    see(std::span<const DeviceId>(group).subspan(first, end - first));
  }
}

}  // namespace

GroupShape group_shape(const Cluster& cluster, const std::vector<DeviceId>& group) {
  GroupShape shape{.members = static_cast<std::int64_t>(group.size()),
                   .domains = 0,
                   .fewest_in_domain = static_cast<std::int64_t>(group.size())};
  see_domains(cluster, group, [&](std::span<const DeviceId> members) {
    ++shape.domains;
    const auto count = static_cast<std::int64_t>(members.size());
    shape.fewest_in_domain = std::min(shape.fewest_in_domain, count);
    shape.most_in_domain = std::max(shape.most_in_domain, count);
  });
  return shape;
}

GroupLinks group_links(const Cluster& cluster, const std::vector<DeviceId>& group,
                       const LinkFit& fit) {
  GroupLinks links{.in_switch = fit.in_switch.has_value()};
  std::size_t domains = 0;
  see_domains(cluster, group, [&](std::span<const DeviceId> members) {
    ++domains;
    if (members.size() == 1) return;
    const LinkSpeed inside = slowest_link(cluster, members);
    if (links.inside.bandwidth == BytesPerSecond(0) || inside.bandwidth < links.inside.bandwidth) {
      links.inside = inside;
    }
  });
  if (domains > 1) links.network = slowest_link(cluster, group);
  return links;
}

BytesPerSecond host_link_capacity(const Host& host) {
  // Measured on H200 over PCIe 5: 55.4 of 63 GB/s to the device, 55.1 back (ml-engineering,
  // network chapter).
  constexpr double kShare = 0.88;
  return host.bandwidth.value * kShare;
}

Seconds host_copy_time(Bytes size, const Host& host, std::int64_t sharing) {
  constexpr Seconds kLaunch = 10.0_us;
  const auto users = static_cast<double>(std::max<std::int64_t>(sharing, 1));
  return kLaunch + size / (host_link_capacity(host) / users);
}

}  // namespace meshwright

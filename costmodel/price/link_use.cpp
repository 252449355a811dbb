#include "costmodel/price/link_use.h"

#include <algorithm>
#include <cassert>

#include "costmodel/price/transfer_cost.h"

namespace meshwright {
namespace {

// Sorts and adds up what is listed several times.
void join_equal(std::vector<LinkLoad>& loads) {
  std::ranges::sort(loads);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    if (kept > 0 && loads[kept - 1].link == loads[i].link) {
      loads[kept - 1].share += loads[i].share;
    } else {
      loads[kept++] = loads[i];
    }
  }
  loads.resize(kept);
}

}  // namespace

LinkMap::LinkMap(const Cluster& cluster) : cluster_(cluster), levels_(levels(cluster)) {
  const auto devices = static_cast<std::size_t>(device_count(cluster));
  for (std::size_t d = 0; d < devices; ++d) {
    const DeviceId device(d);
    node_first_.push_back(
        static_cast<std::uint32_t>(devices_of(cluster, node_of(cluster, device)).first));
    domain_first_.push_back(static_cast<std::uint32_t>(domain_of(cluster, device).first));
    first_rung_.push_back(static_cast<std::uint32_t>(rungs_.size()));
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      const auto group = group_of(cluster, levels_[i], device);
      if (!group) continue;
      Rung rung{.level = static_cast<std::uint32_t>(i),
                .port_level = static_cast<std::uint32_t>(i),
                .first = static_cast<std::uint32_t>(group->first),
                .count = static_cast<std::uint32_t>(group->count)};
      if (rungs_.size() > first_rung_.back()) {
        const LevelId inner = levels_[rungs_.back().level];
        if (typical_bandwidth(cluster, inner, device) ==
            typical_bandwidth(cluster, levels_[i], device)) {
          rung.port_level = rungs_.back().port_level;
        }
      }
      rungs_.push_back(rung);
    }
  }
  first_rung_.push_back(static_cast<std::uint32_t>(rungs_.size()));
}

std::span<const LinkMap::Rung> LinkMap::rungs(DeviceId device) const {
  const std::uint32_t first = first_rung_[device.index()];
  return {rungs_.data() + first, first_rung_[device.index() + 1] - first};
}

std::size_t LinkMap::joining_from_top(DeviceId a, DeviceId b) const {
  const auto own = rungs(a);
  for (std::size_t r = 0; r < own.size(); ++r) {
    if (DeviceRange{own[r].first, own[r].count}.contains(b)) return own.size() - r;
  }
  assert(!"the outermost level joins all devices");
  return 1;
}

std::uint32_t LinkMap::child_of(DeviceId device, std::size_t rung) const {
  return rung == 0 ? static_cast<std::uint32_t>(device.index()) : rungs(device)[rung - 1].first;
}

std::uint32_t LinkMap::place_in_node(DeviceId device) const {
  return static_cast<std::uint32_t>(device.index()) - node_first_[device.index()];
}

bool LinkMap::inside_domain(std::span<const DeviceId> group) const {
  return std::ranges::all_of(group, [&](DeviceId device) {
    return domain_first_[device.index()] == domain_first_[group.front().index()];
  });
}

LinkId LinkMap::host_link(CopyDirection direction, DeviceId device) const {
  const auto& host = node_type_of(cluster_, node_of(cluster_, device)).host;
  assert(host);
  const auto sharing = static_cast<std::uint32_t>(host->devices_per_link.value);
  const std::uint32_t place = place_in_node(device);
  return {.kind = direction == CopyDirection::ToHost ? LinkKind::ToHost : LinkKind::FromHost,
          .first = node_first_[device.index()] + place / sharing * sharing};
}

BytesPerSecond LinkMap::capacity(const LinkId& link) const {
  if (link.kind == LinkKind::ToHost || link.kind == LinkKind::FromHost) {
    const NodeId node = node_of(cluster_, DeviceId(link.first));
    return host_link_capacity(*node_type_of(cluster_, node).host);
  }
  const LevelId id = levels_[link.level];
  const DeviceId device(link.first);
  const auto own = rungs(device);
  if (link.kind == LinkKind::Out || link.kind == LinkKind::In) {
    BytesPerSecond least = bandwidth_of(cluster_, id, device);
    for (const Rung& rung : own) {
      if (rung.port_level != link.level) continue;
      least = std::min(least, bandwidth_of(cluster_, levels_[rung.level], device));
    }
    return least;
  }
  const auto rung =
      std::ranges::find(own, link.level, [](const Rung& entry) { return entry.level; });
  const std::size_t count = rung == own.begin() ? 1 : std::prev(rung)->count;
  const LinkLevel& links = level(cluster_, id);
  BytesPerSecond sum;
  for (std::size_t d = link.first; d < link.first + count; ++d) {
    if (links.rails && place_in_node(DeviceId(d)) != link.rail) continue;
    sum += bandwidth_of(cluster_, id, DeviceId(d));
  }
  return sum / links.oversubscription.value;
}

// A level that uses the ports of the one inside it is reached through that one's uplinks too.
void LinkMap::add_crossing(DeviceId device, std::size_t rung, double share, bool out,
                           Loads& loads) const {
  const auto own = rungs(device);
  loads.push_back({{out ? LinkKind::Out : LinkKind::In, own[rung].port_level,
                    static_cast<std::uint32_t>(device.index())},
                   share});
  for (std::size_t r = rung + 1; r-- > 0;) {
    if (own[r].port_level != own[rung].port_level) break;
    const LinkLevel& links = level(cluster_, levels_[own[r].level]);
    if (links.oversubscription.value <= 1) continue;
    loads.push_back({{out ? LinkKind::Up : LinkKind::Down, own[r].level, child_of(device, r),
                      links.rails ? place_in_node(device) : 0},
                     share});
  }
}

// Members are in the order of devices, so those of a group inside a level follow each other.
std::vector<LinkMap::Members> LinkMap::children(Members members) const {
  const std::size_t from_top = joining_from_top(members.front(), members.back());
  std::vector<Members> children;
  std::size_t start = 0;
  const auto child = [&](std::size_t i) {
    return child_of(members[i], rungs(members[i]).size() - from_top);
  };
  for (std::size_t i = 1; i <= members.size(); ++i) {
    if (i < members.size() && child(i) == child(start)) continue;
    children.push_back(members.subspan(start, i - start));
    start = i;
  }
  return children;
}

void LinkMap::add_both_ways(Members members, std::size_t from_top, double share,
                            Loads& loads) const {
  for (const DeviceId device : members) {
    const std::size_t rung = rungs(device).size() - from_top;
    add_crossing(device, rung, share, true, loads);
    add_crossing(device, rung, share, false, loads);
  }
}

void LinkMap::add_ring(Members members, bool closed, Loads& loads) const {
  if (members.size() < 2) return;
  const std::size_t from_top = joining_from_top(members.front(), members.back());
  const std::vector<Members> parts = children(members);
  const auto count = static_cast<double>(parts.size());
  const double crossing = closed ? 1 : (count - 1) / count;
  for (const Members part : parts) {
    add_both_ways(part, from_top, crossing / static_cast<double>(part.size()), loads);
    add_ring(part, false, loads);
  }
}

double LinkMap::tree_crossing(Members members, const std::vector<Members>& parts) const {
  const bool apart =
      domain_first_[parts.front().front().index()] != domain_first_[parts.back().front().index()];
  constexpr std::size_t kFewestInSwitch = 5;  // as NCCL has it
  const bool switches = std::ranges::all_of(
      parts, [](const Members& part) { return part.size() >= kFewestInSwitch; });
  const auto n = static_cast<double>(members.size());
  return parts.size() == 2 && apart && switches ? n / (2 * (n - 1)) : 1;
}

void LinkMap::add_all_reduce(Members members, Loads& loads) const {
  const std::vector<Members> parts = children(members);
  const std::size_t from_top = joining_from_top(members.front(), members.back());
  for (const Members part : parts) {
    const double share = tree_crossing(members, parts) / static_cast<double>(part.size());
    add_both_ways(part, from_top, share, loads);
    add_ring(part, false, loads);
  }
}

void LinkMap::add_all_to_all(Members members, double peers, Loads& loads) const {
  if (members.size() < 2) return;
  const std::size_t from_top = joining_from_top(members.front(), members.back());
  for (const Members part : children(members)) {
    const auto beyond = static_cast<double>(members.size() - part.size());
    add_both_ways(part, from_top, beyond / peers, loads);
    add_all_to_all(part, peers, loads);
  }
}

void LinkMap::add_send(DeviceId from, DeviceId to, Loads& loads) const {
  const std::size_t from_top = joining_from_top(from, to);
  const std::size_t rung = rungs(from).size() - from_top;
  const bool rails = level(cluster_, levels_[rungs(from)[rung].level]).rails;
  const std::size_t forwarder = node_first_[from.index()] + place_in_node(to);
  const bool has_rail =
      forwarder < node_first_.size() && node_first_[forwarder] == node_first_[from.index()];
  DeviceId sender = from;
  if (rails && has_rail && forwarder != from.index()) {
    add_send(from, DeviceId(forwarder), loads);
    sender = DeviceId(forwarder);
  }
  add_crossing(sender, rung, 1, true, loads);
  add_crossing(to, rungs(to).size() - from_top, 1, false, loads);
}

std::vector<LinkLoad> LinkMap::loads(TransferKind kind, std::span<const DeviceId> group) const {
  Loads loads;
  if (group.size() < 2) return loads;
  std::vector<DeviceId> members(group.begin(), group.end());
  std::ranges::sort(members);
  switch (kind) {
    case TransferKind::AllReduce:
      add_all_reduce(members, loads);
      break;
    case TransferKind::ReduceScatter:
    case TransferKind::AllGather:
      add_ring(members, true, loads);
      break;
    case TransferKind::AllToAll:
      add_all_to_all(members, static_cast<double>(members.size() - 1), loads);
      break;
    case TransferKind::Broadcast:
    case TransferKind::Send:
    case TransferKind::Receive:
      for (std::size_t i = 1; i < group.size(); ++i) add_send(group[i - 1], group[i], loads);
      break;
  }
  join_equal(loads);
  return loads;
}

}  // namespace meshwright

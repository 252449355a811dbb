#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "costmodel/cluster/cluster.h"
#include "costmodel/kernel/host_copy.h"
#include "costmodel/kernel/transfer.h"

namespace meshwright {

// What bytes pass and transfers share. Every device has a port at each level, with a direction out
// and one in. Where a level is over-subscribed, each group of the level inside it has an uplink:
// what its devices could send through the level together, divided by the over-subscription. Devices
// that share a link to their host share it in each direction; that the two directions do not
// disturb each other is an assumption.
enum class LinkKind { Out, In, Up, Down, ToHost, FromHost };

struct LinkId {
  LinkKind kind = LinkKind::Out;
  std::uint32_t level = 0;  // index into levels(cluster); 0 for links to hosts
  std::uint32_t first = 0;  // the device, or the first device of the group
  std::uint32_t rail = 0;   // uplinks of a level with rails: one for each place in a node
  friend auto operator<=>(const LinkId&, const LinkId&) = default;
};

// A transfer's use of a link: bytes that cross it for each byte that a member of the transfer's
// group sends.
struct LinkLoad {
  LinkId link;
  double share = 0;
  friend auto operator<=>(const LinkLoad&, const LinkLoad&) = default;
};

// Which links transfers cross.
//
// Rings (all kinds but those below) cross a level once for every group of the level inside it; all
// members in such a group carry an equal part of that, each through its own port. Inside the group
// the ring is an open chain. Of an all-reduce over two domains with five or more members in each,
// every byte crosses once each way: it is a tree, whose domains send half of them up and the other
// half down. An all-to-all sends an equal
// part to every peer, through the innermost level that joins the two. A broadcast goes from member
// to member, Send and Receive from one to the other; between different places of two nodes a level
// with rails is entered by the device of the sender's node that stands on the receiver's rail.
//
// Assumption: a level has the ports of the level inside it where the two have the same bandwidth
// (leaf and spine switches behind one adapter); otherwise it has ports of its own.
class LinkMap {
 public:
  explicit LinkMap(const Cluster& cluster);  // must outlive this

  // By link; each link once. Nothing for fewer than two devices.
  std::vector<LinkLoad> loads(TransferKind kind, std::span<const DeviceId> group) const;
  // The host link that a device's copies cross; its node must have a host.
  LinkId host_link(CopyDirection direction, DeviceId device) const;
  BytesPerSecond capacity(const LinkId& link) const;
  // Whether all devices are in one domain: a node, or a rack that NVLink joins.
  bool inside_domain(std::span<const DeviceId> group) const;

 private:
  // A level as one device sees it.
  struct Rung {
    std::uint32_t level = 0;
    std::uint32_t port_level = 0;  // the level whose port is used
    std::uint32_t first = 0;       // of the device's group at the level
    std::uint32_t count = 0;
  };
  using Members = std::span<const DeviceId>;
  using Loads = std::vector<LinkLoad>;

  std::span<const Rung> rungs(DeviceId device) const;
  // The innermost level that joins two devices, counted from the outermost, which is 1: nodes may
  // have different numbers of levels inside.
  std::size_t joining_from_top(DeviceId a, DeviceId b) const;
  // First device of the group inside rung `rung`; the device itself where it is the innermost.
  std::uint32_t child_of(DeviceId device, std::size_t rung) const;
  std::uint32_t place_in_node(DeviceId device) const;
  void add_crossing(DeviceId device, std::size_t rung, double share, bool out, Loads& loads) const;
  std::vector<Members> children(Members members) const;
  void add_both_ways(Members members, std::size_t from_top, double share, Loads& loads) const;
  void add_ring(Members members, bool closed, Loads& loads) const;
  // How often an all-reduce crosses between the parts of a group, by a closed ring's.
  double tree_crossing(Members members, const std::vector<Members>& parts) const;
  void add_all_reduce(Members members, Loads& loads) const;
  void add_all_to_all(Members members, double peers, Loads& loads) const;
  void add_send(DeviceId from, DeviceId to, Loads& loads) const;

  const Cluster& cluster_;
  std::vector<LevelId> levels_;
  std::vector<Rung> rungs_;
  std::vector<std::uint32_t> first_rung_;    // by device, and one past the last
  std::vector<std::uint32_t> node_first_;    // by device: the first device of its node
  std::vector<std::uint32_t> domain_first_;  // and of its domain
};

}  // namespace meshwright

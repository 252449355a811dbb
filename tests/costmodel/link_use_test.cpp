#include "costmodel/price/link_use.h"

#include <catch2/catch.hpp>

#include "tests/costmodel/cluster_examples.h"

namespace meshwright {
namespace {

std::vector<DeviceId> ids(const std::vector<std::size_t>& indices) {
  std::vector<DeviceId> devices;
  for (const std::size_t index : indices) devices.emplace_back(index);
  return devices;
}

// Two nodes of four devices in pairs: level 0 pairs, 1 the bus, 2 the network.
Cluster pairs() {
  return {.name = "pairs",
          .node_types = {node_of_devices("node", 4, {2})},
          .nodes = {{0, 2}},
          .network = {links("network", std::nullopt, 10.0_GBps)}};
}

double share_of(const std::vector<LinkLoad>& loads, LinkId link) {
  for (const LinkLoad& load : loads) {
    if (load.link == link) return load.share;
  }
  return 0;
}

}  // namespace

TEST_CASE("a ring crosses a level once for each group inside it, by all its members") {
  const Cluster cluster = pairs();
  const LinkMap map(cluster);
  const auto loads = map.loads(TransferKind::AllGather, ids({0, 1, 2, 3, 4, 5, 6, 7}));
  // The network: once for each node, a quarter by each device.
  CHECK(share_of(loads, {LinkKind::Out, 2, 5}) == 0.25);
  CHECK(share_of(loads, {LinkKind::In, 2, 5}) == 0.25);
  // In the node the ring is a chain over two pairs: half a crossing for each pair, by two devices.
  CHECK(share_of(loads, {LinkKind::Out, 1, 5}) == 0.25);
  // In a pair half a crossing for each device.
  CHECK(share_of(loads, {LinkKind::Out, 0, 5}) == 0.5);
  // All in all every member sends what it sends.
  CHECK(loads.size() == 8 * 2 * 3);
}

TEST_CASE("an all-to-all reaches each peer by the innermost level that joins them") {
  const Cluster cluster = pairs();
  const LinkMap map(cluster);
  const auto loads = map.loads(TransferKind::AllToAll, ids({0, 1, 2, 3, 4}));
  // Device 0: one peer in its pair, two in its node, one in the other node, of four.
  CHECK(share_of(loads, {LinkKind::Out, 0, 0}) == 0.25);
  CHECK(share_of(loads, {LinkKind::Out, 1, 0}) == 0.5);
  CHECK(share_of(loads, {LinkKind::Out, 2, 0}) == 0.25);
  CHECK(share_of(loads, {LinkKind::Out, 2, 4}) == 1);
}

TEST_CASE("an all-reduce over two large nodes has every byte cross once each way") {
  const Cluster cluster{.name = "two nodes",
                        .node_types = {node_of_devices("node", 8)},
                        .nodes = {{0, 2}},
                        .network = {links("network", std::nullopt, 10.0_GBps)}};
  const LinkMap map(cluster);
  std::vector<DeviceId> all;
  for (std::size_t i = 0; i < 16; ++i) all.emplace_back(i);
  const auto tree = map.loads(TransferKind::AllReduce, all);
  const auto ring = map.loads(TransferKind::AllGather, all);
  // A device sends 2 S 15/16, of which the eight of a node together let S cross.
  CHECK(share_of(tree, {LinkKind::Out, 1, 5}) == Approx(1 / (2.0 * 15 / 16) / 8));
  CHECK(share_of(ring, {LinkKind::Out, 1, 5}) == 1.0 / 8);
  CHECK(share_of(tree, {LinkKind::Out, 0, 5}) == share_of(ring, {LinkKind::Out, 0, 5}));
  // In a node there is no tree, and small groups are rings.
  for (const auto& group : {ids({0, 1, 2, 3}), ids({0, 1, 8, 9})}) {
    CHECK(map.loads(TransferKind::AllReduce, group) == map.loads(TransferKind::AllGather, group));
  }
}

TEST_CASE("sends have a direction, and one device alone crosses nothing") {
  const Cluster cluster = pairs();
  const LinkMap map(cluster);
  using Loads = std::vector<LinkLoad>;
  CHECK(map.loads(TransferKind::Send, ids({2, 7})) ==
        Loads{{{LinkKind::Out, 2, 2}, 1}, {{LinkKind::In, 2, 7}, 1}});
  CHECK(map.loads(TransferKind::Receive, ids({2, 3})) ==
        Loads{{{LinkKind::Out, 0, 2}, 1}, {{LinkKind::In, 0, 3}, 1}});
  CHECK(map.loads(TransferKind::Broadcast, ids({0, 1, 4})) == Loads{{{LinkKind::Out, 0, 0}, 1},
                                                                    {{LinkKind::Out, 2, 1}, 1},
                                                                    {{LinkKind::In, 0, 1}, 1},
                                                                    {{LinkKind::In, 2, 4}, 1}});
  CHECK(map.loads(TransferKind::AllReduce, ids({3})).empty());
  CHECK(map.inside_domain(ids({4, 7})));
  CHECK(!map.inside_domain(ids({3, 4})));
}

TEST_CASE("uplinks carry what their devices can send, divided by the over-subscription") {
  Cluster cluster = pairs();
  cluster.network.front().oversubscription = declared(4.0);
  const LinkMap map(cluster);
  const auto loads = map.loads(TransferKind::Send, ids({2, 7}));
  CHECK(share_of(loads, {LinkKind::Up, 2, 0}) == 1);
  CHECK(share_of(loads, {LinkKind::Down, 2, 4}) == 1);
  CHECK(map.capacity({LinkKind::Up, 2, 0}) == 10.0_GBps);  // 4 x 10 / 4
  cluster.network.front().rails = true;
  const LinkMap rails(cluster);
  const auto by_rail = rails.loads(TransferKind::Send, ids({3, 7}));
  CHECK(share_of(by_rail, {LinkKind::Up, 2, 0, 3}) == 1);
  CHECK(rails.capacity({LinkKind::Up, 2, 0, 3}) == 2.5_GBps);
}

TEST_CASE("an exception changes what a device's port carries") {
  Cluster cluster = pairs();
  cluster.exceptions = {{.device = DeviceId(6), .bandwidth = {{"network", 1.0_GBps}}}};
  const LinkMap map(cluster);
  CHECK(map.capacity({LinkKind::In, 2, 6}) == 1.0_GBps);
  CHECK(map.capacity({LinkKind::In, 2, 5}) == 10.0_GBps);
  CHECK(map.capacity({LinkKind::In, 1, 6}) == 25.0_GBps);
}

TEST_CASE("devices of a node share host links in their order, each way") {
  Cluster cluster = pairs();
  cluster.node_types[0].host =
      Host{declared(1_GiB), declared(50.0_GBps), declared(std::int64_t{3})};
  const LinkMap map(cluster);
  // Of four devices the first three have a link, the last one has its own.
  for (const auto& [device, first] : {std::pair{0, 0}, {2, 0}, {3, 3}, {4, 4}, {6, 4}, {7, 7}}) {
    const LinkId link = map.host_link(CopyDirection::ToHost, DeviceId(std::size_t(device)));
    CHECK(link == LinkId{.kind = LinkKind::ToHost, .first = std::uint32_t(first)});
    CHECK(map.capacity(link).value() == Approx(0.88 * 50e9).epsilon(1e-12));
  }
  CHECK(map.host_link(CopyDirection::FromHost, DeviceId(0)) !=
        map.host_link(CopyDirection::ToHost, DeviceId(0)));
}

}  // namespace meshwright

#include "costmodel/price/transfer_cost.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/costmodel/cluster_examples.h"
#include "tests/costmodel/cost_examples.h"

namespace meshwright {
namespace {

// Nodes of eight devices at 100 GB/s, cards of 10 GB/s.
const GroupLinks kLinks = {.inside = BytesPerSecond(100e9), .network = BytesPerSecond(10e9)};

GroupShape group(std::int64_t nodes, std::int64_t on_node) {
  return {.members = nodes * on_node,
          .nodes = nodes,
          .fewest_on_node = on_node,
          .most_on_node = on_node};
}

// Bandwidth alone.
LinkFit bandwidth_only() {
  const ProtocolFit half{.share = 0.5};
  return {.small = {.base_s = 1, .share = 1}, .large = half, .all_to_all = half};
}
const NetworkFit kNetwork = {.base_s = 0, .hop_s = 0, .share = 0.8, .ramp_s = 0};

double time_of(TransferKind kind, Bytes size, const GroupShape& shape, const LinkFit& fit) {
  return transfer_time(kind, size, shape, kLinks, fit, kNetwork).value();
}

Cluster plain_nodes() {
  return {.name = "two nodes",
          .node_types = {node_of_devices("node", 4)},
          .nodes = {{0, 2}},
          .network = {links("network", std::nullopt, 10.0_GBps)}};
}

}  // namespace

TEST_CASE("the time of a large transfer is its volume at the fitted share of the bandwidth") {
  const LinkFit fit = bandwidth_only();
  const Bytes size(8'000'000);
  // nccl-tests: bus bandwidth = volume / time, the volume of an all-reduce 2 S (n-1)/n.
  CHECK(time_of(TransferKind::AllReduce, size, group(1, 8), fit) == near(14e6 / 50e9));
  for (const auto kind :
       {TransferKind::AllGather, TransferKind::ReduceScatter, TransferKind::AllToAll}) {
    CHECK(time_of(kind, size, group(1, 8), fit) == near(7e6 / 50e9));
  }
  for (const auto kind : {TransferKind::Send, TransferKind::Receive, TransferKind::Broadcast}) {
    CHECK(time_of(kind, size, group(1, 2), fit) == near(8e6 / 50e9));
  }
}

TEST_CASE("latency, steps and ramp are added, and the faster protocol is taken") {
  LinkFit fit = bandwidth_only();
  fit.large = {.base_s = 10e-6, .hop_s = 1e-6, .share = 1, .ramp_s = 1e-9};
  // 2 x 3 steps; 1.5 x 4 MB.
  CHECK(time_of(TransferKind::AllReduce, Bytes(4'000'000), group(1, 4), fit) ==
        near(10e-6 + 6e-6 + 6e6 / 100e9 + 1e-9 * std::sqrt(6e6)));
  fit.small = {.base_s = 1e-6, .hop_s = 1e-6, .share = 0.1};
  CHECK(time_of(TransferKind::AllReduce, Bytes(4000), group(1, 4), fit) ==
        near(7e-6 + 6000 / 10e9));
}

TEST_CASE("a ring over nodes uses the cards of all its members on a node") {
  const LinkFit fit = bandwidth_only();
  const Bytes size(16'000'000);
  // 2 S 15/16 = 30 MB through 8 cards at 0.8 of 10 GB/s would be 64 GB/s; the node's links
  // carry 50.
  CHECK(time_of(TransferKind::AllReduce, size, group(2, 8), fit) == near(30e6 / 50e9));
  // Two members on each of 8 nodes: 16 GB/s.
  CHECK(time_of(TransferKind::AllReduce, size, group(8, 2), fit) == near(30e6 / 16e9));
  // One member on each: the links inside do not matter.
  CHECK(time_of(TransferKind::AllReduce, size, group(16, 1), fit) == near(30e6 / 8e9));
  CHECK(time_of(TransferKind::Send, size, group(2, 1), fit) == near(16e6 / 8e9));
  // Of an all-to-all 8/16 leaves the node, each through its own card.
  CHECK(time_of(TransferKind::AllToAll, size, group(2, 8), fit) == near(8e6 / 8e9));
}

TEST_CASE("the steps of a ring that leave a node cost a hop of the network") {
  LinkFit fit = bandwidth_only();
  fit.large.hop_s = 1e-6;
  const NetworkFit network{.base_s = 5e-6, .hop_s = 10e-6, .share = 1, .ramp_s = 0};
  // 15 steps, of which 1 leaves a node.
  CHECK(transfer_time(TransferKind::AllGather, Bytes(16'000'000), group(2, 8), kLinks, fit, network)
            .value() == near(5e-6 + 10e-6 + 14e-6 + 15e6 / 50e9));
}

TEST_CASE("ring steps") {
  CHECK(ring_steps(TransferKind::AllReduce, group(1, 8)).inside == 14);
  CHECK(ring_steps(TransferKind::AllGather, group(4, 8)).network == 3);
  CHECK(ring_steps(TransferKind::AllGather, group(4, 8)).inside == 28);
  CHECK(ring_steps(TransferKind::Send, group(2, 1)).network == 1);
  CHECK(ring_steps(TransferKind::Send, group(2, 1)).inside == 0);
}

TEST_CASE("small all-reduces over many nodes take a tree, large ones a ring") {
  // 64 nodes of 8, 1 KB: the ring's 2 x 63 steps through the network at 2.7 us are 340 us, the
  // tree's 2 x 6 at 5 us 60 us. At 10 GB the ring's bandwidth is 1/0.92 of the tree's.
  const GroupShape shape = group(64, 8);
  CHECK(nccl_choice(TransferKind::AllReduce, Bytes(1000), shape, kLinks) == Algorithm::Tree);
  CHECK(nccl_choice(TransferKind::AllReduce, Bytes(10'000'000'000), shape, kLinks) ==
        Algorithm::Ring);
  CHECK(nccl_choice(TransferKind::AllGather, Bytes(1000), shape, kLinks) == Algorithm::Ring);
}

TEST_CASE("switches reduce for groups of five and more in a node") {
  GroupLinks switched = kLinks;
  switched.in_switch = true;
  const auto choice = [](const GroupShape& shape, const GroupLinks& by) {
    return nccl_choice(TransferKind::AllReduce, Bytes(1'000'000'000), shape, by);
  };
  CHECK(choice(group(1, 8), switched) == Algorithm::InSwitch);
  CHECK(choice(group(1, 4), switched) == Algorithm::Ring);
  CHECK(choice(group(1, 8), kLinks) == Algorithm::Ring);
  // A small one is done before the switch has started: 14 steps of 0.6 us.
  CHECK(nccl_choice(TransferKind::AllReduce, Bytes(1000), group(1, 8), switched) ==
        Algorithm::Ring);
}

TEST_CASE("the shape and the links of a group are those of its nodes") {
  Cluster cluster = plain_nodes();
  const auto devices = [](std::vector<std::size_t> ids) {
    std::vector<DeviceId> result;
    for (const std::size_t id : ids) result.emplace_back(id);
    return result;
  };
  CHECK(group_shape(cluster, devices({0, 1, 2, 5})) ==
        GroupShape{.members = 4, .nodes = 2, .fewest_on_node = 1, .most_on_node = 3});
  CHECK(group_shape(cluster, devices({3})) == GroupShape{});
  CHECK(group_links(cluster, devices({0, 1}), LinkFit()).inside == 25.0_GBps);
  cluster.network[0].oversubscription = declared(4.0);
  const GroupLinks links = group_links(cluster, devices({0, 1, 4, 5}), LinkFit());
  CHECK(links.inside == 25.0_GBps);
  CHECK(links.network == 2.5_GBps);
  CHECK(!links.in_switch);
}

TEST_CASE("devices that share a host link share its bandwidth") {
  const Host host{.memory = declared(1024_GiB),
                  .bandwidth = declared(10.0_GBps),
                  .devices_per_link = declared<std::int64_t>(2)};
  CHECK(host_copy_time(Bytes(88'000'000), host, 1).value() == near(10e-6 + 10e-3));
  CHECK(host_copy_time(Bytes(88'000'000), host, 2).value() == near(10e-6 + 20e-3));
}

}  // namespace meshwright

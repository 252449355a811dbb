#include "costmodel/price/transfer_cost.h"

#include <catch2/catch.hpp>

#include "tests/costmodel/cluster_examples.h"
#include "tests/costmodel/cost_examples.h"

namespace meshwright {
namespace {

std::vector<DeviceId> ids_of(std::vector<std::size_t> ids) {
  std::vector<DeviceId> result;
  for (const std::size_t id : ids) result.emplace_back(id);
  return result;
}

// Two nodes of four devices.
Cluster two_plain_nodes() {
  return {.name = "two nodes",
          .node_types = {node_of_devices("node", 4)},
          .nodes = {{0, 2}},
          .network = {links("network", std::nullopt, 10.0_GBps)}};
}

// Eight nodes of four; NVLink joins four nodes to a rack.
Cluster two_racks() {
  Cluster cluster{
      .name = "two racks",
      .node_types = {node_of_devices("tray", 4)},
      .nodes = {{0, 8}},
      .network = {links("nvlink", 4, 25.0_GBps), links("network", std::nullopt, 10.0_GBps)}};
  cluster.network[0].fabric = declared(Fabric::NvLinkRack);
  cluster.network[0].latency = declared(0.5_us);
  cluster.network[1].fabric = declared(Fabric::Efa);
  return cluster;
}

}  // namespace

TEST_CASE("the shape and the links of a group are those of its nodes") {
  Cluster cluster = two_plain_nodes();
  CHECK(group_shape(cluster, ids_of({0, 1, 2, 5})) ==
        GroupShape{.members = 4, .domains = 2, .fewest_in_domain = 1, .most_in_domain = 3});
  CHECK(group_shape(cluster, ids_of({5, 0, 2, 1})) == group_shape(cluster, ids_of({0, 1, 2, 5})));
  CHECK(group_shape(cluster, ids_of({3})) == GroupShape{});
  CHECK(group_links(cluster, ids_of({0, 1}), LinkFit()).inside.bandwidth == 25.0_GBps);
  cluster.network[0].oversubscription = declared(4.0);
  const GroupLinks links = group_links(cluster, ids_of({0, 1, 4, 5}), LinkFit());
  CHECK(links.inside.bandwidth == 25.0_GBps);
  CHECK(links.network.bandwidth == 2.5_GBps);
  CHECK(links.network.latency == 1.0_us);
  CHECK(links.network.fabric == Fabric::InfiniBand);
  CHECK(!links.in_switch);
}

TEST_CASE("nodes that NVLink joins are one domain") {
  const Cluster cluster = two_racks();
  CHECK(domain_of(cluster, DeviceId(5)) == DeviceRange{0, 16});
  CHECK(domain_of(cluster, DeviceId(16)) == DeviceRange{16, 16});
  CHECK(domain_of(two_plain_nodes(), DeviceId(5)) == DeviceRange{4, 4});
  // Over two nodes of a rack: as inside a node.
  CHECK(group_shape(cluster, ids_of({0, 1, 4, 5})) ==
        GroupShape{.members = 4, .domains = 1, .fewest_in_domain = 4, .most_in_domain = 4});
  const LinkSpeed rack = group_links(cluster, ids_of({0, 1, 4, 5}), LinkFit()).inside;
  CHECK(rack.bandwidth == 25.0_GBps);
  CHECK(rack.latency == 0.5_us);
  CHECK(rack.fabric == Fabric::NvLinkRack);
  CHECK(group_shape(cluster, ids_of({0, 4, 8, 20})) ==
        GroupShape{.members = 4, .domains = 2, .fewest_in_domain = 1, .most_in_domain = 3});
  CHECK(group_links(cluster, ids_of({0, 20}), LinkFit()).network.fabric == Fabric::Efa);
}

TEST_CASE("the member with the slowest link sets the pace") {
  Cluster cluster = two_plain_nodes();
  cluster.node_types.push_back(node_of_devices("slow", 4));
  cluster.node_types[1].network_bandwidth.emplace("network", declared(5.0_GBps));
  cluster.nodes.push_back({1, 1});
  CHECK(group_links(cluster, ids_of({0, 4}), LinkFit()).network.bandwidth == 10.0_GBps);
  CHECK(group_links(cluster, ids_of({0, 4, 8}), LinkFit()).network.bandwidth == 5.0_GBps);
}

TEST_CASE("devices that share a host link share its bandwidth") {
  const Host host{.memory = declared(1024_GiB),
                  .bandwidth = declared(10.0_GBps),
                  .devices_per_link = declared<std::int64_t>(2)};
  CHECK(host_copy_time(Bytes(88'000'000), host, 1).value() == near(10e-6 + 10e-3));
  CHECK(host_copy_time(Bytes(88'000'000), host, 2).value() == near(10e-6 + 20e-3));
}

}  // namespace meshwright

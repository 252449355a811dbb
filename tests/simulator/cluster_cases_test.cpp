// Clusters of different make, each with transfers whose times are worked out on paper. 250 million
// 4-byte numbers are 1 GB.

#include <catch2/catch.hpp>

#include "costmodel/cluster/cluster_name.h"
#include "simulator/engine/simulate.h"
#include "tests/costmodel/cluster_examples.h"
#include "tests/flat_transfer.h"
#include "tests/simulator/link_costs.h"
#include "tests/simulator/program_builder.h"

namespace meshwright {
namespace {

constexpr std::int64_t kGigabyte = 250'000'000;  // elements
constexpr EngineOptions kSharing = {.share_links = true};

// A transfer that starts at once; those of one case run on lanes of their own.
Transfer send(std::size_t from, std::size_t to, std::int64_t gigabytes = 1) {
  return flat({.kind = TransferKind::Send, .group = device_ids({from, to})}, gigabytes * kGigabyte);
}
Transfer all_reduce(const std::vector<std::size_t>& group, std::int64_t gigabytes = 1) {
  return flat({.kind = TransferKind::AllReduce, .group = device_ids(group)}, gigabytes * kGigabyte);
}

// How long each of the transfers takes when all start at once.
std::vector<Seconds> times_together(const Cluster& cluster,
                                    const std::vector<Transfer>& transfers) {
  std::map<DeviceId, ProgramBuilder> builders;
  std::vector<std::pair<DeviceId, std::size_t>> places;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    for (const DeviceId member : transfers[i].group) {
      auto& builder = builders.try_emplace(member, member.index()).first->second;
      Transfer own = transfers[i];
      const bool receives = own.kind == TransferKind::Send && member == own.group[1];
      if (receives) {
        own.kind = TransferKind::Receive;
        std::swap(own.source, own.target);
      }
      const TaskId task = builder.transfer(own, "lane " + std::to_string(i));
      if (member == own.group.front()) places.emplace_back(member, task.index());
    }
  }
  std::vector<Program> programs;
  for (auto& [device, builder] : builders) programs.push_back(builder.program());
  const Timeline timeline = simulate(programs, LinkCosts(cluster), cluster, kSharing);
  std::vector<Seconds> times;
  for (const auto& [device, task] : places) {
    for (const DeviceTimeline& entry : timeline.devices) {
      if (entry.device == device) times.push_back(entry.tasks[task].finish);
    }
  }
  return times;
}

void check_times(const std::vector<Seconds>& times, const std::vector<double>& expected) {
  REQUIRE(times.size() == expected.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    CAPTURE(i);
    CHECK(times[i].value() == Approx(expected[i]).epsilon(1e-6));
  }
}

Cluster nodes_of(std::int64_t devices, std::int64_t nodes, LinkLevel network) {
  return {.name = "nodes",
          .node_types = {node_of_devices("node", devices)},
          .nodes = {{0, nodes}},
          .network = {std::move(network)}};
}

}  // namespace

TEST_CASE("two sends of one adapter share it, and the rest has it for itself") {
  const Cluster cluster = nodes_of(1, 3, links("network", std::nullopt, 1.0_GBps));
  check_times(times_together(cluster, {send(0, 1)}), {1});
  check_times(times_together(cluster, {send(0, 1), send(0, 2)}), {2, 2});
  // Half each until 1 GB of both is sent after 2 s; 2 of 3 GB are left.
  check_times(times_together(cluster, {send(0, 1), send(0, 2, 3)}), {2, 4});
  // Links have two directions.
  check_times(times_together(cluster, {send(0, 1), send(1, 0)}), {1, 1});
  check_times(times_together(cluster, {send(0, 2), send(1, 2)}), {2, 2});
}

TEST_CASE("a gradient reduction and a pipeline's send share the adapter") {
  const Cluster cluster = nodes_of(1, 3, links("network", std::nullopt, 1.0_GBps));
  // Of two members each sends 2 (n-1)/n = 1 times the gigabyte.
  check_times(times_together(cluster, {all_reduce({0, 1})}), {1});
  check_times(times_together(cluster, {all_reduce({0, 1}), send(0, 2)}), {2, 2});
  // Three sends and a reduction leave device 0: a quarter each.
  check_times(times_together(cluster, {all_reduce({0, 1}), send(0, 2), send(0, 2), send(0, 2)}),
              {4, 4, 4, 4});
}

TEST_CASE("what one flow cannot use is left to the others") {
  // Device 1 receives from 0 and 2, device 3 from 0: sends 0>1 and 2>1 have 1/2 of device 1's port.
  // Device 0's port then has 1/2 left for 0>3, and so fair shares are 1/2 everywhere; with a third
  // sender to device 1 they are 1/3 there and 2/3 for 0>3.
  const Cluster cluster = nodes_of(1, 5, links("network", std::nullopt, 1.0_GBps));
  check_times(times_together(cluster, {send(0, 1), send(2, 1), send(0, 3)}), {2, 2, 2});
  // 0>3 ends after 1.5 s; the three others are bound by device 1's port all the time.
  check_times(times_together(cluster, {send(0, 1), send(2, 1), send(4, 1), send(0, 3)}),
              {3, 3, 3, 1.5});
}

TEST_CASE("pairs joined by NVLink against a node of NVLink") {
  Cluster cluster{.name = "node", .nodes = {{0, 1}}};
  NodeType pairs{.name = "pairs", .device = small_device("small"), .devices = 4};
  pairs.levels = {links("nvlink", 2, 100.0_GBps), links("pcie", std::nullopt, 10.0_GBps)};
  NodeType full{.name = "full", .device = small_device("small"), .devices = 4};
  full.levels = {links("nvlink", std::nullopt, 100.0_GBps)};
  // A member sends 2 S 3/4 = 6 GB of 4 GB. With pairs the ring leaves each pair once, half through
  // each device's PCIe port: 3 GB at 10 GB/s. Within the pair it passes half on: 3 GB at 100 GB/s.
  cluster.node_types = {pairs};
  check_times(times_together(cluster, {all_reduce({0, 1, 2, 3}, 4)}), {0.3});
  // 4 GB within a pair: 4 GB each at 100 GB/s, whichever the other pair.
  check_times(times_together(cluster, {all_reduce({0, 1}, 4), all_reduce({2, 3}, 4)}),
              {0.04, 0.04});
  cluster.node_types = {full};
  check_times(times_together(cluster, {all_reduce({0, 1, 2, 3}, 4)}), {0.06});
}

TEST_CASE("tensor-parallel and expert transfers share NVLink") {
  Cluster cluster{.name = "node", .nodes = {{0, 1}}};
  NodeType node{.name = "full", .device = small_device("small"), .devices = 4};
  node.levels = {links("nvlink", std::nullopt, 1.0_GBps)};
  cluster.node_types = {node};
  const Transfer experts =
      flat({.kind = TransferKind::AllToAll, .group = device_ids({0, 1, 2, 3})}, 4 * kGigabyte);
  // All-to-all: 4 GB x 3/4 = 3 GB a member. All-reduce of 1 GB between two: 1 GB a member.
  check_times(times_together(cluster, {experts}), {3});
  // Half each until the reduction's 1 GB is done after 2 s; 2 GB are left.
  check_times(times_together(cluster, {experts, all_reduce({0, 1})}), {4, 2});
}

TEST_CASE("on rails a send to another place leaves by the device on the receiver's rail") {
  LinkLevel network = links("network", std::nullopt, 1.0_GBps);
  // Devices 0, 1 in the first node; 3 and 5 stand at the second place of the others. The node's bus
  // carries 25 GB/s, so it does not matter.
  check_times(times_together(nodes_of(2, 3, network), {send(0, 3), send(1, 5)}), {1, 1});
  network.rails = true;
  check_times(times_together(nodes_of(2, 3, network), {send(0, 3), send(1, 5)}), {2, 2});
  check_times(times_together(nodes_of(2, 3, network), {send(0, 2), send(1, 5)}), {1, 1});
}

TEST_CASE("a reduction over nodes uses the adapters of all its members in a node") {
  // Four members in two nodes: each sends 2 S 3/4 = 3 GB of 2 GB; the ring leaves a node once, half
  // through each of its two adapters: 1.5 GB at 1 GB/s. Inside it is 1.5 GB at 25 GB/s.
  const Cluster cluster = nodes_of(2, 2, links("network", std::nullopt, 1.0_GBps));
  check_times(times_together(cluster, {all_reduce({0, 1, 2, 3}, 2)}), {1.5});
}

TEST_CASE("an over-subscribed spine is shared by those who cross it") {
  Cluster cluster = nodes_of(1, 4, links("leaf", 2, 1.0_GBps));
  cluster.network.push_back(links("spine", std::nullopt, 1.0_GBps));
  cluster.network.back().oversubscription = declared(2.0);
  // Two nodes of 1 GB/s behind a leaf switch have 2 / 2 = 1 GB/s together towards the spine.
  check_times(times_together(cluster, {send(0, 2)}), {1});
  check_times(times_together(cluster, {send(0, 2), send(1, 3)}), {2, 2});
  check_times(times_together(cluster, {send(0, 1), send(2, 3)}), {1, 1});
  check_times(times_together(cluster, {send(0, 2), send(3, 1)}), {1, 1});
}

TEST_CASE("an NVL72 domain is one switch, and its racks are joined by another network") {
  const Cluster racks = find_cluster("gb200-nvl72:36x4", MESHWRIGHT_DATA);
  const double nvlink = 900, fabric = 50;  // GB/s
  // A tray's devices and those of other trays are reached through the same ports.
  check_times(times_together(racks, {send(0, 1)}), {1 / nvlink});
  check_times(times_together(racks, {send(0, 4)}), {1 / nvlink});
  check_times(times_together(racks, {send(0, 1), send(0, 4)}), {2 / nvlink, 2 / nvlink});
  // Place 0 of a tray in the other rack: by the fabric, beside NVLink.
  check_times(times_together(racks, {send(0, 1), send(0, 72)}), {1 / nvlink, 1 / fabric});
  std::vector<std::size_t> rack;
  for (std::size_t i = 0; i < 72; ++i) rack.push_back(i);
  // 72 members in 18 trays of 4: the ring leaves a tray once, a quarter through each port, and
  // passes three quarters on inside, through the same port: all in all once.
  check_times(times_together(racks, {all_reduce(rack, 72)}), {2 * 71 / nvlink});
}

TEST_CASE("a slow link holds up its ring, a slow device its group") {
  Cluster cluster = nodes_of(1, 4, links("network", std::nullopt, 1.0_GBps));
  // 2 x 2 GB x 3/4 = 3 GB a member.
  check_times(times_together(cluster, {all_reduce({0, 1, 2, 3}, 2)}), {3});
  cluster.exceptions = {
      {.device = DeviceId(1), .speed = 0.25, .bandwidth = {{"network", 0.5_GBps}}}};
  check_times(times_together(cluster, {all_reduce({0, 1, 2, 3}, 2)}), {6});
  check_times(times_together(cluster, {all_reduce({0, 2, 3}, 3)}), {4});

  std::vector<Program> programs;
  for (std::size_t device = 0; device < 2; ++device) {
    ProgramBuilder builder(device);
    const TaskId work = builder.kernel({.name = "work"});
    builder.transfer(all_reduce({0, 1}), "ring", {}, {work});
    programs.push_back(builder.program());
  }
  LinkCosts costs(cluster);
  costs.kernels = {{"work", 2.0_s}};
  const Timeline timeline = simulate(programs, costs, cluster, {});
  CHECK(timeline.devices[0].tasks[0] == TaskSpan{0.0_s, 2.0_s});
  CHECK(timeline.devices[1].tasks[0] == TaskSpan{0.0_s, 8.0_s});
  CHECK(timeline.devices[0].tasks[1] == TaskSpan{8.0_s, 10.0_s});  // 1 GB at 0.5 GB/s
}

}  // namespace meshwright

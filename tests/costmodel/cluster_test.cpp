#include "costmodel/cluster/cluster.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "tests/costmodel/cluster_examples.h"

namespace meshwright {
namespace {

// Up to three kinds of nodes of 1 to 12 devices, in up to four groups, with up to two network
// levels: every count is as likely odd as even.
Cluster random_cluster() {
  Cluster cluster{.name = "random"};
  const auto types = *rc::gen::inRange<std::size_t>(1, 4);
  for (std::size_t type = 0; type < types; ++type) {
    const auto devices = *rc::gen::inRange<std::int64_t>(1, 13);
    std::vector<std::int64_t> spans;
    const auto span = *rc::gen::inRange<std::int64_t>(1, 5);
    if (span > 1 && span <= devices) spans.push_back(span);
    if (span > 1 && 2 * span <= devices) spans.push_back(2 * span);
    cluster.node_types.push_back(node_of_devices(std::to_string(type), devices, spans));
  }
  const auto groups = *rc::gen::inRange(1, 5);
  for (int group = 0; group < groups; ++group) {
    cluster.nodes.push_back(
        {*rc::gen::inRange<std::size_t>(0, types), *rc::gen::inRange<std::int64_t>(1, 8)});
  }
  const auto leaf = *rc::gen::inRange<std::int64_t>(1, 6);
  if (leaf > 1) cluster.network.push_back(links("leaf", leaf, 50.0_GBps));
  cluster.network.push_back(links("spine", std::nullopt, 25.0_GBps));
  return cluster;
}

DeviceId random_device(const Cluster& cluster) {
  return DeviceId(
      *rc::gen::inRange<std::size_t>(0, static_cast<std::size_t>(device_count(cluster))));
}

}  // namespace

TEST_CASE("each device is in exactly one node, and the counts add up") {
  CHECK(rc::check([] {
    const Cluster cluster = random_cluster();
    std::size_t next = 0;
    const auto nodes = static_cast<std::size_t>(node_count(cluster));
    for (std::size_t node = 0; node < nodes; ++node) {
      const DeviceRange range = devices_of(cluster, NodeId(node));
      RC_ASSERT(range.first == next);
      RC_ASSERT(static_cast<std::int64_t>(range.count) ==
                node_type_of(cluster, NodeId(node)).devices);
      for (std::size_t i = 0; i < range.count; ++i) {
        RC_ASSERT(node_of(cluster, DeviceId(range.first + i)) == NodeId(node));
      }
      next += range.count;
    }
    RC_ASSERT(static_cast<std::int64_t>(next) == device_count(cluster));
    RC_ASSERT(total_memory(cluster) == 16_GiB * device_count(cluster));
  }));
}

TEST_CASE("the groups of a level do not overlap, and each network level holds every device") {
  CHECK(rc::check([] {
    const Cluster cluster = random_cluster();
    for (const LevelId id : levels(cluster)) {
      std::size_t end = 0;
      std::size_t devices = 0;
      for (const DeviceRange& group : groups_of(cluster, id)) {
        RC_ASSERT(group.first >= end);
        RC_ASSERT(group_of(cluster, id, DeviceId(group.first)) == group);
        end = group.first + group.count;
        devices += group.count;
      }
      if (!id.node_type) {
        RC_ASSERT(static_cast<std::int64_t>(devices) == device_count(cluster));
      }
    }
  }));
}

TEST_CASE("a group lies whole inside one group of every level around it") {
  CHECK(rc::check([] {
    const Cluster cluster = random_cluster();
    const DeviceId device = random_device(cluster);
    DeviceRange inner{device.index(), 1};
    for (const LevelId id : levels(cluster)) {
      const auto outer = group_of(cluster, id, device);
      if (!outer) continue;
      RC_ASSERT(outer->first <= inner.first);
      RC_ASSERT(outer->first + outer->count >= inner.first + inner.count);
      inner = *outer;
    }
    RC_ASSERT(inner.count == static_cast<std::size_t>(device_count(cluster)));
  }));
}

TEST_CASE("the level between two devices is the same both ways and the innermost that joins them") {
  CHECK(rc::check([] {
    const Cluster cluster = random_cluster();
    const DeviceId a = random_device(cluster);
    const DeviceId b = random_device(cluster);
    const auto between = level_between(cluster, a, b);
    RC_ASSERT(between == level_between(cluster, b, a));
    RC_ASSERT(between.has_value() == (a != b));
    if (!between) return;
    RC_ASSERT(group_of(cluster, *between, a)->contains(b));
    for (const LevelId id : levels(cluster)) {
      if (id == *between) break;
      const auto group = group_of(cluster, id, a);
      RC_ASSERT(!group || !group->contains(b));
    }
  }));
}

TEST_CASE("in a mixed cluster each node has its own device, levels and network bandwidth") {
  Cluster cluster{.name = "mixed",
                  .node_types = {node_of_devices("a", 3, {2}), node_of_devices("b", 1)},
                  .nodes = {{0, 2}, {1, 61}},
                  .network = {links("spine", std::nullopt, 25.0_GBps)}};
  cluster.node_types[1].device.name = "other";
  cluster.node_types[1].network_bandwidth = {{"spine", declared(12.5_GBps)}};
  CHECK(device_count(cluster) == 67);
  CHECK(device_type_of(cluster, DeviceId(5)).name == "small");
  CHECK(device_type_of(cluster, DeviceId(6)).name == "other");
  CHECK(node_of(cluster, DeviceId(66)) == NodeId(62));
  CHECK(groups_of(cluster, {0, 0}) == std::vector<DeviceRange>{{0, 2}, {2, 1}, {3, 2}, {5, 1}});
  CHECK(!group_of(cluster, {0, 0}, DeviceId(6)));
  const LevelId spine{std::nullopt, 0};
  CHECK(level_between(cluster, DeviceId(5), DeviceId(6)) == spine);
  CHECK(bandwidth_of(cluster, spine, DeviceId(5)) == 25.0_GBps);
  CHECK(bandwidth_of(cluster, spine, DeviceId(6)) == 12.5_GBps);
}

TEST_CASE("a sum is known only if every device says its part") {
  Cluster cluster{.name = "two kinds",
                  .node_types = {node_of_devices("a", 2), node_of_devices("b", 1)},
                  .nodes = {{0, 3}, {1, 1}},
                  .network = {links("spine", std::nullopt, 25.0_GBps)}};
  CHECK(total_peak(cluster, Precision::FP16) == 700.0_TFLOPps);
  CHECK(!total_peak(cluster, Precision::BF16));
  CHECK(!total_price(cluster));
  CHECK(!total_host_memory(cluster));
  const Host host{declared(64_GiB), declared(16.0_GBps), declared(std::int64_t{1})};
  cluster.node_types[0].host = host;
  cluster.node_types[0].device.price = declared(DollarsPerHour(2));
  CHECK(!total_price(cluster));
  cluster.node_types[1].host = host;
  cluster.node_types[1].device.price = declared(DollarsPerHour(1));
  CHECK(total_price(cluster) == DollarsPerHour(3 * 2 * 2 + 1));
  CHECK(total_host_memory(cluster) == 256_GiB);
}

TEST_CASE("precisions have a name and a size") {
  for (const Precision precision : kPrecisions) {
    CHECK(parse_precision(to_text(precision)) == precision);
  }
  CHECK(to_text(Precision::BF16) == "bf16");
  CHECK(!parse_precision("BF16"));
  CHECK(bytes_per_element(Precision::FP64) == 8_B);
  CHECK(bytes_per_element(Precision::TF32) == 4_B);
  CHECK(bytes_per_element(Precision::BF16) == 2_B);
  CHECK(bytes_per_element(Precision::FP8) == 1_B);
}

}  // namespace meshwright

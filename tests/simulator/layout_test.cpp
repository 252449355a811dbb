#include "simulator/layout/layout.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/simulator/layout_examples.h"

namespace meshwright {
namespace {

std::vector<DeviceId> ids(std::initializer_list<std::size_t> indices) {
  std::vector<DeviceId> devices;
  for (const std::size_t index : indices) devices.emplace_back(index);
  return devices;
}

// The shards of the devices of a mesh in its order.
std::vector<std::vector<ShardRange>> shards(const Sharding& sharding, const Mesh& mesh,
                                            std::int64_t size) {
  std::vector<std::vector<ShardRange>> all;
  for (const DeviceId device : mesh.devices()) {
    all.push_back(shard_of(sharding, mesh, size, device));
  }
  return all;
}

using AllShards = std::vector<std::vector<ShardRange>>;

}  // namespace

TEST_CASE("the last axis of a mesh joins neighbours") {
  const Mesh mesh({{"dp", 2}, {"tp", 3}}, ids({10, 11, 12, 20, 21, 22}));
  const AxisId dp = *mesh.find("dp");
  const AxisId tp = *mesh.find("tp");
  CHECK_FALSE(mesh.find("pp"));
  CHECK(mesh.coordinate(DeviceId(21), dp) == 1);
  CHECK(mesh.coordinate(DeviceId(21), tp) == 1);
  CHECK(mesh.group(DeviceId(21), {tp}) == ids({20, 21, 22}));
  CHECK(mesh.group(DeviceId(21), {dp}) == ids({11, 21}));
  CHECK(mesh.group(DeviceId(21), {}) == ids({21}));
}

TEST_CASE("a group over several axes is ordered by the axes as they are listed") {
  const Mesh mesh({{"dp", 2}, {"tp", 3}}, ids({10, 11, 12, 20, 21, 22}));
  const AxisId dp(0), tp(1);
  CHECK(mesh.group(DeviceId(21), {dp, tp}) == ids({10, 11, 12, 20, 21, 22}));
  CHECK(mesh.group(DeviceId(21), {tp, dp}) == ids({10, 20, 11, 21, 12, 22}));
}

TEST_CASE("the groups along any axes hold each device once, at its joint coordinate") {
  CHECK(rc::check([] {
    const Mesh mesh = random_mesh();
    const std::vector<AxisId> axes = axes_of(random_layout(mesh, 2, true));
    std::set<DeviceId> seen;
    for (const std::vector<DeviceId>& group : mesh.groups(axes)) {
      RC_ASSERT(static_cast<std::int64_t>(group.size()) == mesh.size(axes));
      for (std::size_t i = 0; i < group.size(); ++i) {
        RC_ASSERT(seen.insert(group[i]).second);
        RC_ASSERT(mesh.group(group[i], axes) == group);
        std::int64_t joint = 0;
        for (const AxisId axis : axes) {
          joint = joint * mesh.size(axis) + mesh.coordinate(group[i], axis);
        }
        RC_ASSERT(joint == static_cast<std::int64_t>(i));
      }
    }
    RC_ASSERT(seen.size() == mesh.devices().size());
  }));
}

TEST_CASE("shards are as even as can be, the first ones larger") {
  CHECK(shards({.axes = {a}}, mesh_of({4}), 10) ==
        AllShards{{{0, 3}}, {{3, 3}}, {{6, 2}}, {{8, 2}}});
  CHECK(shards({.axes = {a}}, mesh_of({4}), 2) == AllShards{{{0, 1}}, {{1, 1}}, {}, {}});
}

TEST_CASE("a dimension is cut axis by axis, major to minor") {
  const Mesh mesh = mesh_of({2, 2});
  CHECK(shards({.axes = {a, b}}, mesh, 10) == AllShards{{{0, 3}}, {{3, 2}}, {{5, 3}}, {{8, 2}}});
  // S10, which Colossal-AI cannot represent.
  CHECK(shards({.axes = {b, a}}, mesh, 8) == AllShards{{{0, 2}}, {{4, 2}}, {{2, 2}}, {{6, 2}}});
}

TEST_CASE("a zigzag shard pairs an early range with its mirror image") {
  CHECK(shards({{a}, ShardOrder::Zigzag}, mesh_of({2}), 8) ==
        AllShards{{{0, 2}, {6, 2}}, {{2, 2}, {4, 2}}});
  // Under a causal mask position p attends to p + 1 positions: every shard has the same work.
  const Mesh mesh = mesh_of({2, 4});
  for (const auto& shard : shards({{a, b}, ShardOrder::Zigzag}, mesh, 64)) {
    std::int64_t work = 0;
    for (const ShardRange& range : shard) {
      for (std::int64_t p = range.start; p < range.start + range.size; ++p) work += p + 1;
    }
    CHECK(work == 64 * 65 / 2 / 8);
  }
}

TEST_CASE("the shards along the axes that cut a dimension hold each place exactly once") {
  CHECK(rc::check([] {
    const Mesh mesh = random_mesh();
    const Sharding sharding = random_layout(mesh, 1, false).dims[0].sharding;
    const auto size = *between<std::int64_t>(0, 40);
    std::int64_t largest = 0;
    for (const std::vector<DeviceId>& group : mesh.groups(sharding.axes)) {
      std::vector<int> holders(static_cast<std::size_t>(size), 0);
      for (const DeviceId device : group) {
        const auto ranges = shard_of(sharding, mesh, size, device);
        largest = std::max(largest, size_of(ranges));
        for (const ShardRange& range : ranges) {
          RC_ASSERT(range.size > 0);
          for (std::int64_t i = 0; i < range.size; ++i) {
            ++holders.at(static_cast<std::size_t>(range.start + i));
          }
        }
      }
      RC_ASSERT(std::count(holders.begin(), holders.end(), 1) == size);
    }
    RC_ASSERT(largest == largest_shard(sharding, mesh, size));
  }));
}

TEST_CASE("shards along one axis differ by at most one place") {
  CHECK(rc::check([] {
    const Mesh mesh = mesh_of({*between<std::int64_t>(1, 9)});
    const auto order = *rc::gen::element(ShardOrder::Contiguous, ShardOrder::Zigzag);
    const auto size = *between<std::int64_t>(0, 60);
    std::int64_t least = size, most = 0;
    for (const auto& shard : shards({{a}, order}, mesh, size)) {
      least = std::min(least, size_of(shard));
      most = std::max(most, size_of(shard));
    }
    RC_ASSERT(most - least <= 1);
  }));
}

TEST_CASE("the size of a shard divides by the sizes of axes and counts uncut dimensions") {
  // Colossal-AI's conversion divides by the number of axes and drops uncut dimensions: 8 * 16 / 2.
  const Mesh mesh = mesh_of({2, 4});
  CHECK(largest_shard(cut({{a, b}, {}, {}}), mesh, {16, 8, 3}) == 16 / (2 * 4) * 8 * 3);
}

TEST_CASE("what is wrong with a layout is said in words") {
  const Mesh mesh = mesh_of({2, 2});
  CHECK_FALSE(fault_of(partial(cut({{a}, {}}), {b}), mesh));
  CHECK(fault_of(cut({{a}, {a}}), mesh) == "names axis a twice");
  CHECK(fault_of(partial(cut({{a}, {}}), {a}), mesh) == "names axis a twice");
  CHECK(fault_of(cut({{c}}), mesh) == "names an axis that the mesh does not have");
  CHECK(fault_of(zigzag(cut({{}}), 0), mesh) == "gives an order to a dimension that is not cut");
  CHECK(fault_of(partial(cut({{}}), {}), mesh) == "is partial over no axis");
  CHECK(fault_of(partial(cut({{}}), {b, a}), mesh) ==
        "lists the axes it is partial over out of order");
}

TEST_CASE("a layout is shown by names") {
  const std::vector<Dim> dims = {{.name = "batch"}, {.name = "sequence"}, {.name = "hidden"}};
  const Mesh mesh = mesh_of({2, 2, 2});
  CHECK(layout_text(zigzag(cut({{a, c}, {b}, {}}), 1), mesh, dims) ==
        "[batch/a.c, sequence/b~, hidden]");
  CHECK(layout_text(partial(cut({{}}), {a, b}), mesh, dims) == "[batch] sum over a.b");
  CHECK(layout_text(partial(cut({{}}), {a}, PendingReduction::Max), mesh, dims) ==
        "[batch] max over a");
  CHECK(layout_text(partial(cut({{}}), {a}, PendingReduction::LogSumExp), mesh, dims) ==
        "[batch] log-sum-exp over a");
}

}  // namespace meshwright

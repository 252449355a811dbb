#include "costmodel/cluster/cluster_name.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "costmodel/base/presets.h"
#include "costmodel/cluster/cluster_file.h"
#include "costmodel/cluster/cluster_shape.h"
#include "tests/bad_files.h"
#include "tests/costmodel/cluster_examples.h"

namespace meshwright {
namespace {

Cluster find(std::string_view text) { return find_cluster(text, MESHWRIGHT_DATA); }

void check_name_refused(const std::string& text, const std::string& problem) {
  CHECK_THROWS_AS(find(text), NameError);
  CHECK_THROWS_WITH(find(text), Catch::Contains(problem));
}

}  // namespace

TEST_CASE("a shorthand gives nodes times devices") {
  const Cluster cluster = find("h100:4x8");
  CHECK(cluster.name == "h100:4x8");
  CHECK(node_count(cluster) == 4);
  CHECK(device_count(cluster) == 32);
  CHECK(cluster.node_types.size() == 1);
  CHECK(find("h100:1x8").node_types == find("h100").node_types);
  CHECK(device_count(find("h100:61x3")) == 183);
}

TEST_CASE("a number of devices fills whole nodes and leaves a smaller last one") {
  const Cluster cluster = find("h100:12");
  CHECK(cluster.nodes == std::vector<NodeGroup>{{0, 1}, {1, 1}});
  CHECK(devices_of(cluster, NodeId(1)) == DeviceRange{8, 4});
  CHECK(cluster.node_types[1].name == "h100-node (4 of 8 devices)");
  CHECK(find("h100:16").nodes == std::vector<NodeGroup>{{0, 2}});
  CHECK(find("h100:3").nodes == std::vector<NodeGroup>{{0, 1}});
  CHECK(find("h100:1").node_types[0].levels.empty());
  CHECK(node_count(find("gb200-nvl72:72")) == 18);
}

TEST_CASE("every number of devices up to 200 is a cluster with that many") {
  for (std::size_t devices = 1; devices <= 200; ++devices) {
    for (const char* preset : {"h100", "a100-80-pcie", "gb200-nvl72", "gh200"}) {
      const Cluster cluster = find(std::string(preset) + ":" + std::to_string(devices));
      CHECK(device_count(cluster) == static_cast<std::int64_t>(devices));
      if (devices == 1) continue;
      const auto between = level_between(cluster, DeviceId(0), DeviceId(devices - 1));
      REQUIRE(between);
      CHECK(group_of(cluster, *between, DeviceId(0))->contains(DeviceId(devices - 1)));
    }
  }
}

TEST_CASE("a node with fewer devices keeps the levels that still connect something") {
  NodeType type = node_of_devices("node", 8, {2, 4});
  type.host = Host{declared(64_GiB), declared(16.0_GBps), declared(std::int64_t{2})};
  const auto spans = [&](std::int64_t devices) {
    std::vector<std::optional<std::int64_t>> kept;
    for (const LinkLevel& level : with_devices(type, devices).levels) kept.push_back(level.span);
    return kept;
  };
  using Spans = std::vector<std::optional<std::int64_t>>;
  CHECK(spans(6) == Spans{2, 4, std::nullopt});
  CHECK(spans(4) == Spans{2, std::nullopt});
  CHECK(spans(3) == Spans{2, std::nullopt});
  CHECK(spans(2) == Spans{std::nullopt});
  CHECK(spans(1).empty());
  CHECK(with_devices(type, 1).host->devices_per_link.value == 1);
  CHECK(with_devices(type, 8) == type);
}

TEST_CASE("what names no cluster is told with what would") {
  check_name_refused("h10",
                     "unknown cluster \"h10\": neither a file nor a preset. Did you mean h100? The "
                     "presets are a100-40, ");
  check_name_refused(
      "nothing-like-it:4x8",
      "unknown cluster \"nothing-like-it\": neither a file nor a preset. The presets");
  check_name_refused("", "unknown cluster \"\"");
  check_name_refused(std::string(100'000, 'a'), "aaa...\": neither");
  check_name_refused("x\ny", "unknown cluster \"x\\x0ay\"");
}

TEST_CASE("a malformed shape is told with the form") {
  for (const char* shape : {"", "x", "4x", "x8", "0x8", "4x0", "-1", "4X8", "4x8x2", "4 x 8", "1e3",
                            "99999999999999999999", "1048577", "4x8 "}) {
    check_name_refused(
        std::string("h100:") + shape,
        std::string("\"h100:") + shape +
            "\": expected a shape such as h100:4x8 (4 nodes of 8 devices) or h100:12 "
            "(12 devices), with numbers from 1 to 1048576");
  }
}

TEST_CASE("a shape the cluster cannot have is told with the limit") {
  check_name_refused("h100:4x9", "\"h100:4x9\": its nodes have at most 8 devices");
  check_name_refused("h100:1048576x8", "\"h100:1048576x8\": more than 1048576 devices");
  CHECK(device_count(find("h100:131072x8")) == kMostDevices);
  Cluster lone{.name = "lone", .node_types = {node_of_devices("n", 8)}, .nodes = {{0, 1}}};
  CHECK(shape_problem(lone, {2, 8}) == "it has no network to connect 2 nodes");
  CHECK(shape_problem(lone, {std::nullopt, 9}) == "it has no network to connect 2 nodes");
  CHECK(!shape_problem(lone, {1, 4}));
  lone.network = {links("rack", 4, 25.0_GBps)};
  CHECK(shape_problem(lone, {5, 8}) == "its network \"rack\" spans at most 4 nodes");
  lone.nodes = {{0, 1}, {0, 1}};
  CHECK(shape_problem(lone, {1, 8}) ==
        "it has several groups of nodes, and a shape is for clusters with one");
}

TEST_CASE("a file is read by its path, and may be given a shape") {
  const TemporaryFolder folder;
  const auto preset = std::filesystem::path(MESHWRIGHT_DATA) / "clusters" / "h100.json";
  const auto file = folder.path() / "mine.json";
  std::filesystem::copy_file(preset, file);
  CHECK(find(file.string()) == read_cluster_file(preset));
  CHECK(device_count(find(file.string() + ":2x4")) == 8);
  check_unreadable_files([](const std::filesystem::path& bad) { find(bad.string()); });
  const auto bad = folder.write("bad.json", "{}");
  CHECK_THROWS_WITH(find(bad.string()), bad.string() + ": the field \"format\" is missing");
  CHECK_THROWS_WITH(find("none:1.json"), "none:1.json: cannot be read: No such file or directory");
}

TEST_CASE("a data folder without clusters is told by its name") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(
      preset_names(folder.path() / "clusters"),
      (folder.path() / "clusters").string() + ": cannot be read: No such file or directory");
}

}  // namespace meshwright

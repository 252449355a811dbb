#include <catch2/catch.hpp>

#include "costmodel/base/presets.h"
#include "costmodel/cluster/cluster_file.h"
#include "costmodel/cluster/cluster_name.h"

namespace meshwright {
namespace {

// Published figures (dense rates), typed here a second time so that a slip in a file is seen.
struct Published {
  std::string name;
  std::int64_t devices;
  double half_tflops;  // bf16, or fp16 where there is no bf16
  double fp8_tflops;   // 0: none
  double memory_tb_per_s;
  double least_gb, most_gb;  // decimal memory: reported by the device, on the module
  double link_gb_per_s;      // one way, of the level that spans the node
  double network_gb_per_s;
};

const std::vector<Published> kPublished = {
    {"v100", 8, 125, 0, 0.90, 32, 35, 150, 12.5},
    {"a100-40", 8, 312, 0, 1.555, 40, 43, 300, 25},
    {"a100-80", 8, 312, 0, 2.04, 80, 86, 300, 25},
    {"a100-40-pcie", 8, 312, 0, 1.555, 40, 43, 32, 12.5},
    {"a100-80-pcie", 8, 312, 0, 1.935, 80, 86, 32, 12.5},
    {"h100", 8, 989, 1979, 3.35, 80, 86, 450, 50},
    {"h100-pcie", 8, 756, 1513, 2.0, 80, 86, 63, 25},
    {"h800", 8, 989, 1979, 3.35, 80, 86, 200, 50},
    {"h200", 8, 989, 1979, 4.8, 141, 152, 450, 50},
    {"b200", 8, 2250, 4500, 8.0, 180, 194, 900, 50},
    {"b300", 8, 2250, 4500, 8.0, 270, 288, 900, 100},
    {"gb200-nvl72", 72, 2500, 5000, 8.0, 186, 200, 900, 50},
    {"gb300-nvl72", 72, 2500, 5000, 8.0, 279, 298, 900, 100},
    {"l40s", 8, 362, 733, 0.864, 48, 51, 32, 12.5},
    {"rtx4090", 8, 165.2, 330.3, 1.008, 24, 26, 16, 3.125},
    {"t4", 4, 65, 0, 0.320, 16, 17, 16, 1.5625},
    {"mi300x", 8, 1307, 2615, 5.3, 192, 207, 448, 50},
};

}  // namespace

TEST_CASE("the presets have the published figures") {
  for (const Published& published : kPublished) {
    CAPTURE(published.name);
    const Cluster cluster = find_cluster(published.name, MESHWRIGHT_DATA);
    CHECK(cluster.name == published.name);
    CHECK(cluster.description);
    CHECK(device_count(cluster) == published.devices);
    const NodeType& node = cluster.node_types.front();
    const bool old = published.name == "v100" || published.name == "t4";
    CHECK(node.device.peak.contains(Precision::BF16) == !old);
    CHECK(node.device.peak.at(old ? Precision::FP16 : Precision::BF16).value.value() ==
          Approx(published.half_tflops * 1e12));
    CHECK(node.device.peak.contains(Precision::FP8) == (published.fp8_tflops > 0));
    if (published.fp8_tflops > 0) {
      CHECK(node.device.peak.at(Precision::FP8).value.value() ==
            Approx(published.fp8_tflops * 1e12));
    }
    CHECK(node.device.memory_bandwidth.value.value() ==
          Approx(published.memory_tb_per_s * 1e12).epsilon(0.001));
    const double memory_gb = static_cast<double>(node.device.memory.value.value()) / 1e9;
    CHECK(memory_gb >= published.least_gb);
    CHECK(memory_gb <= published.most_gb);
    CHECK(node.levels.back().bandwidth.value.value() == Approx(published.link_gb_per_s * 1e9));
    CHECK(cluster.network.back().bandwidth.value.value() ==
          Approx(published.network_gb_per_s * 1e9));
  }
}

TEST_CASE("GH200 has one device per node, with its host on NVLink-C2C") {
  const Cluster cluster = find_cluster("gh200:16", MESHWRIGHT_DATA);
  CHECK(node_count(cluster) == 16);
  CHECK(cluster.node_types[0].host->bandwidth.value == 450.0_GBps);
  CHECK(cluster.node_types[0].device.peak.at(Precision::BF16).value == 989.0_TFLOPps);
}

TEST_CASE("two racks of 72 devices: NVLink inside each, the network between them") {
  const Cluster cluster = find_cluster("gb200-nvl72:36x4", MESHWRIGHT_DATA);
  const auto name_between = [&](std::size_t a, std::size_t b) {
    return level(cluster, level_between(cluster, DeviceId(a), DeviceId(b)).value()).name;
  };
  CHECK(device_count(cluster) == 144);
  CHECK(level_between(cluster, DeviceId(0), DeviceId(3)) == LevelId{0, 0});
  CHECK(level_between(cluster, DeviceId(0), DeviceId(71)) == LevelId{std::nullopt, 0});
  CHECK(name_between(0, 71) == "nvlink");
  CHECK(name_between(0, 72) == "fabric");
  CHECK(name_between(72, 143) == "nvlink");
  CHECK(groups_of(cluster, {std::nullopt, 0}) ==
        std::vector<DeviceRange>{{.first = 0, .count = 72}, {.first = 72, .count = 72}});
}

TEST_CASE("NVLink bridges join pairs, PCIe the rest of the node") {
  const Cluster cluster = find_cluster("a100-80-pcie", MESHWRIGHT_DATA);
  const auto bandwidth = [&](std::size_t a, std::size_t b) {
    const LevelId id = level_between(cluster, DeviceId(a), DeviceId(b)).value();
    return bandwidth_of(cluster, id, DeviceId(a));
  };
  CHECK(bandwidth(0, 1) == 300.0_GBps);
  CHECK(bandwidth(1, 2) == 32.0_GBps);
  CHECK(bandwidth(6, 7) == 300.0_GBps);
  CHECK(groups_of(cluster, {0, 0}).size() == 4);
}

TEST_CASE("every preset loads, scales out and says where its values come from") {
  const auto presets = preset_names(MESHWRIGHT_DATA "/clusters");
  CHECK(presets.size() == kPublished.size() + 1);  // and GH200
  for (const std::string& name : presets) {
    CAPTURE(name);
    const Cluster cluster = find_cluster(name + ":1000", MESHWRIGHT_DATA);
    CHECK(device_count(cluster) == 1000);
    CHECK(total_host_memory(cluster));
    for (const LevelId id : levels(cluster)) {
      CHECK(!level(cluster, id).bandwidth.source.empty());
    }
  }
}

TEST_CASE("a cluster is the same after it was written to a file and read") {
  std::vector<std::string> names = preset_names(MESHWRIGHT_DATA "/clusters");
  names.insert(names.end(), {"h100:12", "a100-80:3x4", "gb200-nvl72:18x4"});
  for (const std::string& name : names) {
    INFO(name);
    Cluster cluster = find_cluster(name, MESHWRIGHT_DATA);
    CHECK(parse_cluster(cluster_file_text(cluster), "written.json") == cluster);
    cluster.exceptions = {{.device = DeviceId(0), .speed = 1 / 3.0}};
    for (NodeType& node : cluster.node_types) {
      node.device.memory.value = Bytes(85'899'345'921);
    }
    cluster.network.front().bandwidth.value = BytesPerSecond(1e10 / 3);
    CHECK(parse_cluster(cluster_file_text(cluster), "written.json") == cluster);
  }
}

}  // namespace meshwright

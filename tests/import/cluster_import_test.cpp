#include <fmt/ranges.h>

#include <catch2/catch.hpp>

#include "costmodel/base/input_error.h"
#include "costmodel/cluster/cluster_file.h"
#include "costmodel/cluster/cluster_name.h"
#include "costmodel/price/fitted_costs.h"
#include "tests/bad_files.h"
#include "tests/import/cluster_examples.h"

namespace meshwright {
namespace {

using Catch::Contains;

std::string all_text(const std::vector<std::string>& lines) {
  return fmt::format("{}", fmt::join(lines, "\n"));
}

// Of an all-reduce of 1 GiB among all devices.
Seconds reduce_time(const Cluster& cluster) {
  std::vector<DeviceId> devices;
  for (std::int64_t i = 0; i < device_count(cluster); ++i) {
    devices.emplace_back(static_cast<std::size_t>(i));
  }
  const Software software = read_software(MESHWRIGHT_DATA "/software.json").front();
  return FittedCosts(cluster, read_fits(MESHWRIGHT_DATA "/fits.json"), software.prices)
      .carried(TransferKind::AllReduce, 1_GiB, devices)
      .time;
}

// A node whose paths between devices are these, as nvidia-smi topo -m prints them.
std::string topology_text(const std::vector<std::vector<std::string>>& cells) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) text += fmt::format("\tGPU{}", i);
  text += "\tCPU Affinity\tNUMA Affinity\n";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    text += fmt::format("GPU{}\t{}\t0-7\t0\n", i, fmt::join(cells[i], "\t"));
  }
  return text;
}

}  // namespace

TEST_CASE("what a DGX H100 dumps makes the preset of that machine") {
  const ImportedCluster imported =
      cluster_from({example_facts("h100_topo.txt"), example_facts("h100_query.xml")}, {.nodes = 4});
  CHECK(imported.contradictions.empty());
  const Cluster preset = find_cluster("h100:4x8", MESHWRIGHT_DATA);
  const Cluster& made = imported.cluster;
  CHECK(node_count(made) == 4);
  CHECK(device_count(made) == 32);
  REQUIRE(made.node_types.size() == 1);
  const NodeType &node = made.node_types[0], &usual = preset.node_types[0];
  CHECK(node.device.name == usual.device.name);
  CHECK(node.device.peak == usual.device.peak);
  CHECK(node.device.memory.value == Bytes(81559ll << 20));
  CHECK(node.device.memory.origin == Origin::Measured);
  REQUIRE(node.levels.size() == 1);
  CHECK(node.levels[0].bandwidth.value == 450.0_GBps);  // 18 links of 25 GB/s
  CHECK(node.levels[0].bandwidth.origin == Origin::Declared);
  CHECK_THAT(node.levels[0].bandwidth.source, Contains("18 NVLinks of 25 GB/s in h100_topo.txt"));
  // 32 GT/s x 16 lanes x 128/130 / 8
  CHECK(node.host->bandwidth.value.value() == Approx(63.015e9).epsilon(1e-3));
  CHECK(made.network.back().bandwidth.value == preset.network.back().bandwidth.value);
  CHECK(made.network.back().bandwidth.origin == Origin::Assumed);
  CHECK(made.network.back().rails);
  CHECK(reduce_time(made) == reduce_time(preset));
}

TEST_CASE("what a DGX A100 dumps makes the preset, with the speed of its cards") {
  const ImportedCluster imported =
      cluster_from({example_facts("a100_nccl.xml"), example_facts("a100_hwloc.xml")}, {.nodes = 2});
  CHECK(imported.contradictions.empty());
  const Cluster preset = find_cluster("a100-80:2x8", MESHWRIGHT_DATA);
  REQUIRE(imported.cluster.node_types.size() == 1);
  const NodeType& node = imported.cluster.node_types[0];
  CHECK(node.device == preset.node_types[0].device);
  CHECK(node.levels[0].bandwidth.value == 300.0_GBps);  // 6 switches x 2 links x 25 GB/s
  CHECK(node.host->memory.value == Bytes(2 * 1'082'331'758'592));
  CHECK(node.host->memory.origin == Origin::Measured);
  CHECK(node.host->devices_per_link.value == 2);
  CHECK(node.host->devices_per_link.origin == Origin::Declared);
  // Two cards of 200 Gb/s for the two devices of a switch; those for storage are farther.
  CHECK(imported.cluster.network.back().bandwidth.value == BytesPerSecond(25e9));
  CHECK(imported.cluster.network.back().bandwidth.origin == Origin::Declared);
  CHECK(reduce_time(imported.cluster) == reduce_time(preset));
}

TEST_CASE("a cluster that was imported is read back the same") {
  for (const std::vector<FactFile>& files :
       {std::vector{example_facts("h100_query.xml")},
        std::vector{example_facts("a100_nccl.xml"), example_facts("switches.txt")},
        std::vector{example_facts("h100_query.xml", {"a", "b"}),
                    example_facts("a100_nccl.xml", {"c"})}}) {
    const Cluster made = cluster_from(files).cluster;
    Cluster read = parse_cluster(cluster_file_text(made), "mine.json");
    CHECK(read == made);
  }
}

TEST_CASE("equal nodes are folded, so a thousand make a small file") {
  const FactFile hosts = read_facts("dgx[0001-1000]", "hosts");
  const Cluster made = cluster_from({hosts, example_facts("h100_query.xml")}).cluster;
  CHECK(node_count(made) == 1000);
  CHECK(made.node_types.size() == 1);
  CHECK(made.nodes.size() == 1);
  CHECK(cluster_file_text(made).size() < 8000);
  // The same machine described by another file of the same values.
  const Cluster both = cluster_from({example_facts("h100_query.xml", {"a"}),
                                     read_facts(example_file("h100_query.xml"), "other", {"b"})})
                           .cluster;
  CHECK(both.nodes == std::vector<NodeGroup>{{0, 2}});
}

TEST_CASE("hosts that differ become node types") {
  const ImportedCluster imported = cluster_from(
      {example_facts("h100_query.xml", {"a", "b"}), example_facts("a100_nccl.xml", {"c"})});
  const Cluster& made = imported.cluster;
  REQUIRE(made.node_types.size() == 2);
  CHECK(made.node_types[0].device.name == "a100-sxm-80");  // by name
  CHECK(made.node_types[1].device.name == "h100-sxm");
  CHECK(made.nodes == std::vector<NodeGroup>{{1, 2}, {0, 1}});
  // 200 Gb/s of the second kind; the level has the 400 Gb/s of the first.
  CHECK(made.node_types[0].network_bandwidth.at("fabric").value == BytesPerSecond(25e9));
}

TEST_CASE("switches become levels of the network") {
  const Cluster made =
      cluster_from({example_facts("a100_nccl.xml"), example_facts("switches.txt")}).cluster;
  CHECK(node_count(made) == 8);
  REQUIRE(made.network.size() == 2);
  CHECK(made.network[0].span == 4);
  CHECK(!made.network[1].span);
  const FactFile odd = read_facts(
      "SwitchName=a Level=0 Nodes=n[1-3]\nSwitchName=b Level=0 Nodes=n[4-8]\n", "odd.txt");
  const ImportedCluster uneven = cluster_from({example_facts("a100_nccl.xml"), odd});
  CHECK(uneven.cluster.network.size() == 1);
  CHECK_THAT(all_text(uneven.contradictions),
             Contains("odd.txt: switches of level 0 have no equal"));
}

TEST_CASE("devices behind PCIe switches form levels, and share the link up") {
  const std::string text = topology_text({{"X", "PIX", "SYS", "SYS"},
                                          {"PIX", "X", "SYS", "SYS"},
                                          {"SYS", "SYS", "X", "PIX"},
                                          {"SYS", "SYS", "PIX", "X"}});
  const Cluster made = cluster_from({read_facts(text, "t")}, {.device = "l40s"}).cluster;
  const auto& levels = made.node_types[0].levels;
  REQUIRE(levels.size() == 2);
  CHECK(levels[0].name == "pcie-switch");
  CHECK(levels[0].span == 2);
  CHECK(levels[1].name == "pcie");
  CHECK(levels[1].oversubscription.value == 2);
  CHECK(levels[1].bandwidth.value == 32.0_GBps);  // the preset's
  CHECK(levels[1].bandwidth.origin == Origin::Assumed);
}

TEST_CASE("NVLinks are added up where devices are joined directly") {
  // Four A100 with four links to each of the others: 12 in all, as its data sheet says.
  const std::string text = topology_text({{"X", "NV4", "NV4", "NV4"},
                                          {"NV4", "X", "NV4", "NV4"},
                                          {"NV4", "NV4", "X", "NV4"},
                                          {"NV4", "NV4", "NV4", "X"}});
  const ImportedCluster four = cluster_from({read_facts(text, "t")}, {.device = "a100-40"});
  CHECK(four.cluster.node_types[0].levels[0].bandwidth.value == 300.0_GBps);
  CHECK(four.contradictions.empty());
  // A device that has lost two of its 18 links to the switch: 16 of 25 GB/s.
  const std::string lost =
      topology_text({{"X", "NV18", "NV16"}, {"NV18", "X", "NV16"}, {"NV16", "NV16", "X"}});
  const ImportedCluster fewer = cluster_from({read_facts(lost, "t")}, {.device = "h100"});
  CHECK(fewer.cluster.node_types[0].levels[0].bandwidth.value == 400.0_GBps);
  CHECK_THAT(all_text(fewer.contradictions),
             Contains("t: a device has 16 NVLinks, by its data sheet 18; taken: 16"));
}

TEST_CASE("contradictions are told with what was taken") {
  const std::string query = example_file("h100_query.xml");
  const auto told = [&](const std::vector<FactFile>& files) {
    return all_text(cluster_from(files).contradictions);
  };
  const std::string fewer = query.substr(0, query.rfind("\t<gpu id")) + "</nvidia_smi_log>";
  CHECK_THAT(told({read_facts(fewer, "q"), example_facts("h100_topo.txt")}),
             Contains("devices: 7 by q, 8 by h100_topo.txt; taken: 7"));
  CHECK_THAT(told({example_facts("h100_query.xml"), example_facts("a100_hwloc.xml")}),
             Contains("product: NVIDIA H100 80GB HBM3 by h100_query.xml, NVIDIA A100-SXM4-80GB by "
                      "a100_hwloc.xml; taken: NVIDIA H100 80GB HBM3"));
  CHECK_THAT(told({example_facts("h100_query.xml"), example_facts("a100_hwloc.xml")}),
             Contains("has a device at 0000:1b:00.0, a100_hwloc.xml has none there"));
  const std::string narrow = replaced(query, "<current_link_width>16x", "<current_link_width>8x");
  CHECK_THAT(told({read_facts(narrow, "q")}),
             Contains("q 0000:1b:00.0 has PCIe 5.0 x16 and runs with 8 lanes; taken: 8 lanes"));
  const FactFile job = read_facts("SLURM_JOB_NODELIST=a[1-2]\nSLURM_GPUS_ON_NODE=4\n", "job");
  CHECK_THAT(told({job, example_facts("h100_query.xml")}),
             Contains("job: SLURM_GPUS_ON_NODE is 4, nodes of h100-node have 8 devices; taken: 8"));
  const std::string half = replaced(query, "81559 MiB", "40000 MiB");
  CHECK_THAT(told({read_facts(half, "q")}), Contains("memory: 39.06 GiB by q, 79.65 GiB by q"));
}

TEST_CASE("measured collectives give a bandwidth that nobody says, and are compared with others") {
  const std::vector<FactFile> files = {example_facts("h100_query.xml")};
  const auto with = [&](std::vector<FactFile> all, const std::string& log) {
    all.push_back(read_facts(log, "log"));
    return cluster_from(all);
  };
  // Twice as long as the 400 Gb/s that the preset assumes: about half of that.
  const Cluster assumed = cluster_from(files, {.nodes = 4}).cluster;
  const double usual = reduce_time(assumed).value();
  const ImportedCluster slow = with(files, all_reduce_log(4, 8, 2e3 * usual));
  CHECK(node_count(slow.cluster) == 4);
  const auto& bandwidth = slow.cluster.network.back().bandwidth;
  CHECK(bandwidth.origin == Origin::Measured);
  CHECK(bandwidth.value.value() == Approx(25e9).epsilon(0.1));
  CHECK(reduce_time(slow.cluster).value() == Approx(2 * usual).epsilon(0.02));
  CHECK(slow.contradictions.empty());
  REQUIRE(slow.compared.size() == 1);
  CHECK(slow.compared[0].predicted.value() ==
        Approx(slow.compared[0].measured.value()).epsilon(0.02));
  // Where the speed is declared it stays, and the test contradicts it.
  const ImportedCluster declared =
      with({example_facts("a100_nccl.xml")}, all_reduce_log(2, 8, 5e3 * usual));
  CHECK(declared.cluster.network.back().bandwidth.origin == Origin::Declared);
  CHECK_THAT(all_text(declared.contradictions),
             Contains("log: all_reduce of 1 GiB over 2 nodes x 8 devices took"));
  CHECK_THAT(
      all_text(with({example_facts("a100_nccl.xml", {"a"}), example_facts("a100_hwloc.xml", {"a"})},
                    all_reduce_log(2, 8, 5))
                   .contradictions),
      Contains("measured on 16 devices of 2 nodes, which the cluster does not have"));
}

TEST_CASE("what the files leave open and nobody can assume is refused") {
  CHECK_THROWS_WITH(cluster_from({example_facts("h100_topo.txt")}),
                    Contains("no file names its devices; add nvidia-smi -q -x"));
  CHECK(cluster_from({example_facts("h100_topo.txt")}, {.device = "h100"}).contradictions.empty());
  CHECK_THROWS_WITH(cluster_from({example_facts("h100_topo.txt")}, {.device = "h101"}),
                    "--device h101: no preset of devices has this name");
  const std::string other =
      replaced(example_file("h100_query.xml"), "<product_name>NVIDIA H100 80GB HBM3",
               "<product_name>Elsewhere 9");
  CHECK_THROWS_WITH(cluster_from({read_facts(other, "q")}),
                    Contains("q: one node has Elsewhere 9 and NVIDIA H100 80GB HBM3"));
  CHECK_THROWS_WITH(
      cluster_from({example_facts("h100_query.xml"), example_facts("h100_query.xml")}),
      Contains("a second file of nvidia-smi -q -x after h100_query.xml, of nobody"));
  CHECK_THROWS_WITH(
      cluster_from({read_facts("a,b", "hosts"), example_facts("h100_query.xml", {"a"})}),
      Contains("b: no file describes it"));
  CHECK_THROWS_WITH(cluster_from({read_facts("a,b", "hosts")}),
                    Contains("a: no file describes it"));
}

}  // namespace meshwright

#include <catch2/catch.hpp>

#include "costmodel/base/input_error.h"
#include "costmodel/cluster/cluster_file.h"
#include "import/cluster/slurm.h"
#include "import/input/xml_input.h"
#include "tests/bad_files.h"
#include "tests/costmodel/mutations.h"
#include "tests/import/cluster_examples.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

using Catch::Contains;
using Hosts = std::vector<std::string>;

}  // namespace

TEST_CASE("what a file is, is found out by its content") {
  CHECK(example_facts("h100_topo.txt").kind == FactKind::NvidiaTopology);
  CHECK(example_facts("h100_query.xml").kind == FactKind::NvidiaQuery);
  CHECK(example_facts("a100_nccl.xml").kind == FactKind::NcclTopology);
  CHECK(example_facts("a100_hwloc.xml").kind == FactKind::Hwloc);
  CHECK(example_facts("switches.txt").kind == FactKind::SwitchTree);
  CHECK(read_facts(all_reduce_log(1, 8, 3), "log").kind == FactKind::NcclTests);
  CHECK(read_facts("dgx[01-02]\n", "hosts").kind == FactKind::NodeList);
  CHECK(read_facts("export SLURM_JOB_NODELIST=\"a,b\"\n", "job").kind == FactKind::NodeList);
  CHECK_THROWS_WITH(read_facts("to be or not to be?", "f"),
                    Contains("f: is none of nvidia-smi topo -m, nvidia-smi -q -x"));
  CHECK_THROWS_WITH(read_facts("<html><body/></html>", "f"),
                    Contains("f: line 1: expected <nvidia_smi_log>, <system>"));
  CHECK_THROWS_WITH(read_facts(" \n", "f"), "f: is empty");
  CHECK_THROWS_WITH(read_facts(std::string("a\nb\0c", 5), "f"), Contains("f: line 2: has a NUL"));
}

TEST_CASE("a list of hosts is expanded as SLURM does, zeros kept") {
  CHECK(parse_hostlist("a", "x") == Hosts{"a"});
  CHECK(parse_hostlist("n[8-11]", "x") == Hosts{"n8", "n9", "n10", "n11"});
  CHECK(parse_hostlist("n[008-010,3],m1", "x") == Hosts{"n008", "n009", "n010", "n3", "m1"});
  CHECK(parse_hostlist("r[1-2]n[1-2]-ib", "x") ==
        Hosts{"r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"});
  for (const char* bad : {"n[1-", "n[2-1]", "n[]", "n[a-b]", ",", "n[1-2", "a b",
                          "n[1-99999999999]", "n[0-9999]m[0-9999]", "n]1[", "a;rm", "n[-1]"}) {
    INFO(bad);
    CHECK_THROWS_WITH(parse_hostlist(bad, "x"), Contains("x: list of hosts"));
  }
  CHECK_THROWS_WITH(read_facts("a[1-3],a2", "f"), "f: the host a2 is named twice");
}

TEST_CASE("XML reads nothing but the given text, however it asks") {
  const XmlElement outside = parse_xml(
      "<!DOCTYPE a [<!ENTITY f SYSTEM \"file:///etc/passwd\"><!ENTITY b \"&f;&f;\">]><a>&b;</a>",
      "x");
  CHECK(outside.text == "&b;");
  std::string bomb = "<!DOCTYPE a [<!ENTITY e0 \"xxxxxxxxxx\">";
  for (int i = 1; i < 40; ++i) {
    bomb += "<!ENTITY e" + std::to_string(i) + " \"&e" + std::to_string(i - 1) + ";&e" +
            std::to_string(i - 1) + ";\">";
  }
  CHECK(parse_xml(bomb + "]><a>&e39;</a>", "x").text == "&e39;");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  for (int i = 0; i < 100'000; ++i) deep += "</a>";
  CHECK_THROWS_WITH(parse_xml(deep, "x"), "x: line 1: elements nest deeper than 128 levels");
  CHECK_THROWS_WITH(parse_xml("<a b='1' b='2'/>", "x"), Contains("\"b\" is given twice"));
  CHECK_THROWS_WITH(parse_xml("<a>\n<b>\n</a>", "x"), Contains("x: line 3: is no XML"));
}

TEST_CASE("a wrong value is told with its line, what was found and what was expected") {
  const auto refused = [](const std::string& file, const std::string& from, const std::string& to) {
    try {
      read_facts(replaced(example_file(file), from, to), "f");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  CHECK_THAT(refused("h100_topo.txt", "GPU0\t X \tNV18", "GPU0\t X \tNV0"),
             Contains("f: line 2: expected NV#, PIX, PXB, PHB, NODE or SYS, found \"NV0\""));
  CHECK_THAT(refused("h100_topo.txt", "GPU0\t X \tNV18", "GPU0\t X \tNV12"),
             Contains("GPU1 to GPU0 is another link than GPU0 to GPU1"));
  CHECK_THAT(refused("h100_topo.txt", "\nGPU3", "\nGPU9"), Contains("expected the row GPU3"));
  CHECK_THAT(refused("h100_query.xml", "81559 MiB", "-1 MiB"), Contains("total: expected a size"));
  CHECK_THAT(refused("h100_query.xml", "81559 MiB", "nan"), Contains("found \"nan\""));
  CHECK_THAT(refused("h100_query.xml", "<max_link_gen>5", "<max_link_gen>999"),
             Contains("max_link_gen: expected a number from 1 to 64, found \"999\""));
  CHECK_THAT(refused("h100_query.xml", "<current_mig>Disabled", "<current_mig>Enabled"),
             Contains("cut into instances (MIG)"));
  CHECK_THAT(refused("h100_query.xml", "00000000:1B:00.0", "nowhere"), Contains("id: expected"));
  CHECK_THAT(refused("a100_nccl.xml", "count=\"2\"", "count=\"-2\""), Contains("found \"-2\""));
  CHECK_THAT(refused("a100_nccl.xml", "speed=\"200000\"", "speed=\"1e300\""),
             Contains("speed: expected megabits a second, found \"1e300\""));
  // What some sites give NCCL to read.
  CHECK_THROWS_WITH(
      read_facts("<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0001:00:00.0\" "
                 "class=\"0x030200\"/></cpu></system>",
                 "f"),
      Contains("f: line 1: has no <gpu>: expected what NCCL writes"));
  CHECK_THAT(refused("a100_hwloc.xml", "1082331758592", "99999999999999999999"),
             Contains("local_memory: expected bytes"));
  CHECK_THAT(refused("switches.txt", "Level=0", "Level=x"),
             Contains("f: line 1: expected SwitchName"));
  CHECK_THROWS_WITH(read_facts("myfSwitchName=a Level=0 Nodes=h1\n", "f"),
                    "f: expected SwitchName=, Level=, Nodes= of switches, found none with nodes");
}

TEST_CASE("spoiled dumps are refused in one line, or make a cluster that can be read") {
  const auto seed = static_cast<std::uint64_t>(20261117);
  INFO("seed " << seed);
  Mutations mutations(seed);
  for (const char* name :
       {"h100_topo.txt", "h100_query.xml", "a100_nccl.xml", "a100_hwloc.xml", "switches.txt"}) {
    const std::string good = example_file(name);
    for (int i = 0; i < cases(150, 5000); ++i) {
      const std::string text = mutations.of_bytes(good);
      try {
        std::vector<FactFile> files = {read_facts(text, "f")};
        if (files[0].kind == FactKind::SwitchTree) files.push_back(example_facts("h100_query.xml"));
        const Cluster made = cluster_from(files, {.device = "a100-80"}).cluster;
        CHECK(device_count(parse_cluster(cluster_file_text(made), "made")) == device_count(made));
      } catch (const InputError& error) {
        CHECK(std::string(error.what()).find('\n') == std::string::npos);
      }
    }
  }
}

}  // namespace meshwright

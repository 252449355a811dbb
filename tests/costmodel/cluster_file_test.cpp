#include "costmodel/cluster/cluster_file.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"
#include "tests/bad_files.h"

namespace meshwright {
namespace {

using json = nlohmann::json;

// The smallest file with everything that other tests change: two nodes of 4 devices.
json small_file() {
  return json::parse(R"({
    "format": "meshwright-cluster", "version": 1, "name": "small",
    "device_types": {"d": {"memory": "16 GiB", "memory_bandwidth": "900 GB/s",
                           "peak": {"fp16": "125 TFLOP/s"}}},
    "node_types": {"n": {"device": "d", "devices": 4,
                         "host": {"memory": "64 GiB", "bandwidth": "16 GB/s"},
                         "levels": [{"name": "pair", "span": 2, "bandwidth": "50 GB/s"},
                                    {"name": "bus", "bandwidth": "16 GB/s"}]}},
    "nodes": [{"type": "n", "count": 2}],
    "network": [{"name": "net", "bandwidth": "100 Gb/s"}]
  })");
}

Cluster parse(const json& file) { return parse_cluster(file.dump(), "c.json"); }

// The message for the small file with the value at `pointer` replaced.
std::string problem_with(const std::string& pointer, const json& value) {
  json file = small_file();
  file[json::json_pointer(pointer)] = value;
  try {
    parse(file);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string problem_without(const std::string& pointer) {
  return problem_with(pointer, nullptr);  // null is "not given"
}

}  // namespace

TEST_CASE("a cluster file is read whole") {
  const Cluster cluster = parse(small_file());
  CHECK(cluster.name == "small");
  CHECK(!cluster.description);
  REQUIRE(cluster.node_types.size() == 1);
  const NodeType& node = cluster.node_types[0];
  CHECK(node.name == "n");
  CHECK(node.devices == 4);
  CHECK(node.device.name == "d");
  CHECK(node.device.memory.value == 16_GiB);
  CHECK(node.device.memory_bandwidth.value == 900.0_GBps);
  CHECK(node.device.peak.at(Precision::FP16).value == 125.0_TFLOPps);
  CHECK(!node.device.price);
  CHECK(node.host->memory.value == 64_GiB);
  REQUIRE(node.levels.size() == 2);
  CHECK(node.levels[0].span == 2);
  CHECK(!node.levels[1].span);
  CHECK(cluster.nodes == std::vector<NodeGroup>{{0, 2}});
  CHECK(cluster.network[0].bandwidth.value == 12.5_GBps);
  CHECK(!cluster.network[0].rails);
}

TEST_CASE("each value says where it comes from") {
  json file = small_file();
  file["device_types"]["d"]["memory"] = {
      {"value", "15 GiB"}, {"origin", "measured"}, {"source", "as the device reports"}};
  file["network"][0]["latency"] = {{"value", "3 us"}, {"origin", "declared"}};
  const Cluster plain = parse(file);
  const DeviceType& device = plain.node_types[0].device;
  CHECK(device.memory == Sourced<Bytes>{15_GiB, Origin::Measured, "as the device reports"});
  CHECK(device.memory_bandwidth.source == "given in the cluster file");
  file["sources"] = "the data sheet";
  const Cluster sourced = parse(file);
  CHECK(sourced.node_types[0].device.memory_bandwidth ==
        Sourced<BytesPerSecond>{900.0_GBps, Origin::Declared, "the data sheet"});
  CHECK(sourced.network[0].latency.source == "the data sheet");
}

TEST_CASE("what is left out is assumed, and says so") {
  const Cluster cluster = parse(small_file());
  const LinkLevel& bus = cluster.node_types[0].levels[1];
  CHECK(bus.latency ==
        Sourced<Seconds>{1.0_us, Origin::Assumed, "not given; usual for a hop over pcie"});
  CHECK(cluster.network[0].latency ==
        Sourced<Seconds>{2.7_us, Origin::Assumed, "not given; usual for a hop over infiniband"});
  CHECK(!cluster.network[0].fabric);
  CHECK(fabric_of(cluster, {std::nullopt, 0}) == Fabric::InfiniBand);
  CHECK(fabric_of(cluster, {0, 1}) == Fabric::Pcie);
  CHECK(bus.oversubscription ==
        Sourced<double>{1.0, Origin::Assumed,
                        "not given; a level that carries all its devices at once"});
  CHECK(cluster.node_types[0].host->devices_per_link ==
        Sourced<std::int64_t>{1, Origin::Assumed,
                              "not given; every device has a host link of its own"});
}

TEST_CASE("a fabric is read where it can be, and brings its usual latency") {
  auto file = small_file();
  file["network"][0]["fabric"] = "efa";
  const Cluster cluster = parse(file);
  CHECK(cluster.network[0].fabric->value == Fabric::Efa);
  CHECK(cluster.network[0].latency.value == 12.0_us);
  CHECK(problem_with("/network/0/fabric", "pcie") ==
        "c.json: network[0].fabric: expected infiniband, roce, efa, slingshot, ethernet, nvlink or "
        "nvlink-rack, found \"pcie\"");
  CHECK(problem_with("/node_types/n/levels/0/fabric", "efa") ==
        "c.json: node_types.n.levels[0].fabric: expected nvlink, nvlink-rack, xgmi, pcie or "
        "memory, found \"efa\"");
}

TEST_CASE("a mixed cluster may have its own network bandwidth for each node type") {
  json file = small_file();
  file["node_types"]["one"] = {
      {"device", "d"}, {"devices", 1}, {"network_bandwidth", {{"net", "25 Gb/s"}}}};
  file["nodes"].push_back({{"type", "one"}, {"count", 61}});
  const Cluster cluster = parse(file);
  CHECK(device_count(cluster) == 69);
  CHECK(bandwidth_of(cluster, {std::nullopt, 0}, DeviceId(68)) == 3.125_GBps);
}

TEST_CASE("the documented example is a cluster") {
  const std::string text =
      read_text_file(std::filesystem::path(MESHWRIGHT_DATA) / "README.md", 1_MiB);
  const std::string fence = "```json\n";
  const auto begin = text.find(fence, text.find("## Cluster files")) + fence.size();
  const Cluster cluster =
      parse_cluster(text.substr(begin, text.find("```", begin) - begin), "README.md");
  CHECK(device_count(cluster) == 4 * 8 + 3);
  CHECK(device_type_of(cluster, DeviceId(31)).name == "big");
  CHECK(device_type_of(cluster, DeviceId(32)).name == "small");
}

TEST_CASE("one node needs no network, one device no levels") {
  json file = small_file();
  file["nodes"][0]["count"] = 1;
  file.erase("network");
  CHECK(device_count(parse(file)) == 4);
  file["node_types"]["n"] = {{"device", "d"}, {"devices", 1}};
  CHECK(device_count(parse(file)) == 1);
}

TEST_CASE("a value of the wrong type is told with its field") {
  const std::string rate = "expected a rate such as \"25 GB/s\", found ";
  CHECK(problem_with("/network/0/bandwidth", 25) == "c.json: network[0].bandwidth: " + rate + "25");
  CHECK(problem_with("/node_types/n/levels/1/bandwidth", "fast") ==
        "c.json: node_types.n.levels[1].bandwidth: " + rate + "\"fast\"");
  CHECK(problem_with("/device_types/d/memory", {{"value", 1}}) ==
        "c.json: device_types.d.memory.value: expected a size such as \"80 GiB\", found 1");
  CHECK(problem_with("/nodes", "n") == "c.json: nodes: expected a list, found \"n\"");
  CHECK(problem_with("/nodes/0", 3) == "c.json: nodes[0]: expected an object, found 3");
  CHECK(problem_with("/name", 3) == "c.json: name: expected a text, found 3");
  CHECK(problem_with("/name", "") ==
        "c.json: name: expected a name of 1 to 60 characters, found \"\"");
  CHECK(problem_with("/network/0/rails", 1) ==
        "c.json: network[0].rails: expected true or false, found 1");
  CHECK(problem_with("/device_types/d/price", "2 $") ==
        "c.json: device_types.d.price: expected a price such as \"2.5 $/h\", found \"2 $\"");
}

TEST_CASE("a number outside its range is told with the range") {
  CHECK(problem_with("/nodes/0/count", 0) ==
        "c.json: nodes[0].count: expected a whole number from 1 to 1048576, found 0");
  CHECK(problem_with("/node_types/n/devices", 1e300) ==
        "c.json: node_types.n.devices: expected a whole number from 1 to 1048576, found 1e+300");
  CHECK(problem_with("/network/0/bandwidth", "0 GB/s") ==
        "c.json: network[0].bandwidth: must be more than zero");
  CHECK(problem_with("/network/0/bandwidth", "1e300 B/s") ==
        "c.json: network[0].bandwidth: must be at most 1 EB/s");
  CHECK(problem_with("/device_types/d/memory", "1 PiB") ==
        "c.json: device_types.d.memory: must be at most 64 TiB");
  CHECK(problem_with("/device_types/d/memory", "1e300 B") ==
        "c.json: device_types.d.memory: expected a size such as \"80 GiB\", found \"1e300 B\"");
  CHECK(problem_with("/network/0/latency", "1 h") ==
        "c.json: network[0].latency: must be at most 10 s");
  CHECK(problem_with("/network/0/oversubscription", 0.5) ==
        "c.json: network[0].oversubscription: expected a number from 1 to 1000000, found 0.5");
  CHECK(problem_with("/device_types/d/matmul_share", 1.5) ==
        "c.json: device_types.d.matmul_share: expected a number from 0 to 1, found 1.5");
  CHECK(problem_with("/device_types/d/matmul_share", 0) ==
        "c.json: device_types.d.matmul_share: must be more than zero");
}

TEST_CASE("a missing field is told by its name") {
  for (const std::string field :
       {"format", "version", "name", "device_types", "node_types", "nodes"}) {
    CHECK(problem_without("/" + field) == "c.json: the field \"" + field + "\" is missing");
  }
  CHECK(problem_without("/node_types/n/device") ==
        "c.json: node_types.n: the field \"device\" is missing");
  CHECK(problem_without("/device_types/d/memory") ==
        "c.json: device_types.d: the field \"memory\" is missing");
  CHECK(problem_without("/network/0/bandwidth") ==
        "c.json: network[0]: the field \"bandwidth\" is missing");
  CHECK(problem_with("/device_types/d/memory", {{"value", "1 GiB"}, {"origin", "assumed"}}) ==
        "c.json: device_types.d.memory: the field \"source\" is missing");
}

TEST_CASE("an unknown field or word is told with the known ones") {
  CHECK(problem_with("/nodes/0/cuont", 1) ==
        "c.json: nodes[0]: unknown field \"cuont\"; known here: count, type");
  CHECK(problem_with("/node_types/n/levels/0/rails", true) ==
        "c.json: node_types.n.levels[0]: unknown field \"rails\"; known here: bandwidth, fabric, "
        "latency, name, oversubscription, span");
  CHECK(problem_with("/colour", "red") ==
        "c.json: unknown field \"colour\"; known here: description, device_types, exceptions, "
        "format, "
        "name, network, node_types, nodes, sources, version");
  CHECK(problem_with("/device_types/d/peak/fp4", "1 TFLOP/s") ==
        "c.json: device_types.d.peak.fp4: no such precision; known: fp64, fp32, tf32, fp16, bf16, "
        "fp8");
  CHECK(problem_with("/device_types/d/memory", {{"value", "1 GiB"}, {"origin", "rumour"}}) ==
        "c.json: device_types.d.memory.origin: expected \"measured\", \"declared\" or \"assumed\", "
        "found \"rumour\"");
  CHECK(problem_with("/format", "other") ==
        "c.json: format: expected \"meshwright-cluster\", found \"other\"");
  CHECK(problem_with("/version", 2) ==
        "c.json: version: expected 1, the version this program reads, found 2");
}

TEST_CASE("a file that contradicts itself is told where") {
  CHECK(problem_with("/node_types/n/levels/0/span", 8) ==
        "c.json: node_types.n.levels[0].span: 8 is more than the node's 4 devices");
  CHECK(problem_with("/node_types/n/levels/1/span", 3) ==
        "c.json: node_types.n.levels[1].span: 3 is not a larger multiple of 2, the span of "
        "\"pair\" inside it");
  CHECK(problem_with("/node_types/n/levels/1/span", 2) ==
        "c.json: node_types.n.levels[1].span: 2 is not a larger multiple of 2, the span of "
        "\"pair\" inside it");
  CHECK(problem_without("/node_types/n/levels/0/span") ==
        "c.json: node_types.n.levels[1]: \"pair\" inside it already spans everything: give that "
        "one a span");
  CHECK(problem_with("/node_types/n/levels/1/name", "pair") ==
        "c.json: node_types.n.levels[1].name: a second level \"pair\"");
  CHECK(problem_without("/node_types/n/levels") ==
        "c.json: node_types.n: \"levels\" must say what connects the 4 devices");
  CHECK(problem_without("/network") == "c.json: \"network\" must say what connects the 2 nodes");
  CHECK(problem_with("/network/0/span", 1) ==
        "c.json: network[0].span: the outermost level spans 1 of 2 nodes; leave the span out to "
        "span all");
  CHECK(problem_with("/node_types/n/host/devices_per_link", 5) ==
        "c.json: node_types.n.host.devices_per_link: the node has 4 devices");
  CHECK(problem_with("/node_types/n/device", "e") ==
        "c.json: node_types.n.device: expected a name in \"device_types\", found \"e\"");
  CHECK(problem_with("/nodes/0/type", "m") ==
        "c.json: nodes[0].type: expected a name in \"node_types\", found \"m\"");
  CHECK(problem_with("/device_types/d/peak", json::object()) ==
        "c.json: device_types.d.peak: expected the peak of at least one precision");
}

TEST_CASE("single devices may be slower than their type says") {
  json file = small_file();
  file["exceptions"] = json::parse(
      R"([{"device": 5, "bandwidth": {"net": "1 GB/s"}}, {"device": 2, "speed": 0.5}])");
  const Cluster cluster = parse(file);
  REQUIRE(cluster.exceptions.size() == 2);
  CHECK(cluster.exceptions[0].device == DeviceId(2));
  CHECK(speed_of(cluster, DeviceId(2)) == 0.5);
  CHECK(speed_of(cluster, DeviceId(5)) == 1);
  CHECK(bandwidth_of(cluster, {std::nullopt, 0}, DeviceId(5)) == 1.0_GBps);
  CHECK(bandwidth_of(cluster, {std::nullopt, 0}, DeviceId(4)) == 12.5_GBps);

  const auto problem = [](const char* exceptions) {
    return problem_with("/exceptions", json::parse(exceptions));
  };
  CHECK(problem(R"([{"device": 8, "speed": 0.5}])").starts_with("c.json: exceptions[0].device: "));
  CHECK(problem(R"([{"device": 1, "speed": 0}])") ==
        "c.json: exceptions[0].speed: must be more than zero");
  CHECK(problem(R"([{"device": 1}])") ==
        "c.json: exceptions[0]: expected a \"speed\" or a \"bandwidth\" that differs");
  CHECK(problem(R"([{"device": 1, "bandwidth": {"spine": "1 GB/s"}}])") ==
        "c.json: exceptions[0].bandwidth.spine: no level with this name connects the device");
  CHECK(problem(R"([{"device": 1, "speed": 0.5}, {"device": 1, "speed": 0.6}])") ==
        "c.json: exceptions[1].device: a second exception for this device");
}

TEST_CASE("types and names that nothing uses are errors") {
  CHECK(problem_with("/node_types/m", {{"device", "d"}, {"devices", 1}}) ==
        "c.json: node_types.m: no group of nodes is of this type");
  CHECK(problem_with("/device_types/e", small_file()["device_types"]["d"]) ==
        "c.json: device_types.e: no node type has this device");
  CHECK(problem_with("/node_types/n/network_bandwidth", {{"nte", "1 GB/s"}}) ==
        "c.json: node_types.n.network_bandwidth.nte: no network level has this name");
  CHECK(problem_with("/nodes", json::array()) ==
        "c.json: nodes: expected at least one group of nodes");
}

TEST_CASE("clusters beyond the limits are refused") {
  CHECK(problem_with("/nodes/0/count", 262'145) ==
        "c.json: nodes[0]: more than 1048576 devices in all");
  CHECK(problem_with("/nodes/0/count", 262'144) == "accepted");
  json file = small_file();
  file["nodes"][0]["count"] = 262'144;
  file["device_types"]["d"]["memory"] = "64 TiB";
  CHECK_THROWS_WITH(parse(file), "c.json: nodes: more than 4 EiB of memory in all");
}

TEST_CASE("unreadable, truncated and deeply nested cluster files are refused") {
  check_unreadable_files([](const std::filesystem::path& file) { read_cluster_file(file); });
  const std::string text = small_file().dump();
  for (std::size_t size = 0; size < text.size(); ++size) {
    CHECK_THROWS_AS(parse_cluster(text.substr(0, size), "c.json"), InputError);
  }
  CHECK_THROWS_WITH(parse_cluster(std::string(1000, '['), "c.json"),
                    "c.json: nested deeper than 64 levels");
  CHECK_THROWS_WITH(parse_cluster("[]", "c.json"),
                    "c.json: expected an object, found a list of 0 elements");
}

}  // namespace meshwright

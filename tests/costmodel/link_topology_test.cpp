#include "costmodel/link_topology.h"

#include <catch2/catch.hpp>

#include "costmodel/input_error.h"
#include "costmodel/profile_cluster.h"
#include "tests/costmodel/profile_examples.h"

namespace meshwright {
namespace {

using Groups = std::vector<std::vector<std::int64_t>>;

// Links of every pair, by a function that says how far apart two devices are: 0, 1, 2. Each step is
// twice the latency and half the bandwidth; times of one class differ by a few percent.
template <class Distance>
std::vector<LinkTime> links_of(std::int64_t devices, Distance distance) {
  std::vector<LinkTime> links;
  for (std::int64_t a = 0; a < devices; ++a) {
    for (std::int64_t b = a + 1; b < devices; ++b) {
      const double factor =
          std::exp2(distance(a, b)) * (1 + 0.01 * static_cast<double>((a * 7 + b) % 5));
      links.push_back(
          {measured_by(0), "core", a, b, Seconds(1e-6 * factor), BytesPerSecond(8e9 / factor)});
    }
  }
  return links;
}

// A machine with all that a cluster needs.
Profile machine(std::int64_t devices, std::vector<LinkTime> links) {
  Profile profile;
  profile.provenances = {{"box", "", "meshwright benchmark"}};
  profile.devices = {{measured_by(0), "core", "a core", devices, 2_GiB}};
  profile.kernels = {kernel_time(KernelKind::Matmul, {100, 100, 100}, 1e-4),
                     kernel_time(KernelKind::Matmul, {1000, 1000, 1000}, 0.04),
                     kernel_time(KernelKind::Add, {1000}, 1e-6),
                     kernel_time(KernelKind::Add, {1000000}, 2e-3)};
  profile.links = std::move(links);
  return profile;
}

}  // namespace

TEST_CASE("equal links are one class that joins all") {
  const LinkTopology found = find_topology(4, links_of(4, [](auto, auto) { return 0; }));
  REQUIRE(found.classes.size() == 1);
  CHECK(found.classes[0].pairs.size() == 6);
  CHECK(found.groups == std::vector<Groups>{{{0, 1, 2, 3}}});
  CHECK(found.nested);
  CHECK(span_of(found.groups[0]) == 4);
}

TEST_CASE("pairs, sockets and the rest are found as nested groups") {
  const LinkTopology found = find_topology(
      8, links_of(8, [](auto a, auto b) { return a / 2 == b / 2 ? 0 : (a / 4 == b / 4 ? 1 : 2); }));
  REQUIRE(found.classes.size() == 3);
  CHECK(found.classes[0].pairs.size() == 4);
  CHECK(found.classes[1].pairs.size() == 8);
  CHECK(found.classes[2].pairs.size() == 16);
  CHECK(found.groups[0] == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(found.groups[1] == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(found.groups[2] == Groups{{0, 1, 2, 3, 4, 5, 6, 7}});
  CHECK(found.nested);
  CHECK(found.classes[0].latency < found.classes[1].latency);
  CHECK(found.classes[0].bandwidth > found.classes[1].bandwidth);
}

TEST_CASE("groups that are not neighbours are found too, but are no span") {
  const LinkTopology found =
      find_topology(4, links_of(4, [](auto a, auto b) { return a % 2 == b % 2 ? 0 : 1; }));
  CHECK(found.groups[0] == Groups{{0, 2}, {1, 3}});
  CHECK(found.nested);
  CHECK(!span_of(found.groups[0]));
  CHECK(!span_of({{0, 1}, {2}}));
}

TEST_CASE("a ring is not nested") {
  const LinkTopology found = find_topology(
      4, links_of(4, [](auto a, auto b) { return (b - a) % 4 == 1 || (b - a) % 4 == 3 ? 0 : 1; }));
  CHECK(found.classes.size() == 2);
  CHECK(!found.nested);
}

TEST_CASE("a measured machine is a cluster whose values say so") {
  const Cluster cluster = cluster_of_profile(
      machine(4, links_of(4, [](auto a, auto b) { return a / 2 == b / 2 ? 0 : 1; })), "p.db");
  CHECK(device_count(cluster) == 4);
  const DeviceType& device = cluster.node_types[0].device;
  CHECK(device.name == "core");
  CHECK(device.memory.value == 2_GiB);
  // 2 * 1000^3 / 0.04 s; 3 * 4 * 10^6 B / 2 ms.
  CHECK(device.peak.at(Precision::FP32).value.value() == Approx(5e10));
  CHECK(device.peak.at(Precision::FP32).origin == Origin::Measured);
  CHECK(device.memory_bandwidth.value.value() == Approx(6e9));
  const auto& levels = cluster.node_types[0].levels;
  REQUIRE(levels.size() == 2);
  CHECK(levels[0].span == 2);
  CHECK(!levels[1].span);
  CHECK(levels[0].bandwidth.value > levels[1].bandwidth.value);
  CHECK(levels[0].bandwidth.origin == Origin::Measured);
}

TEST_CASE("another number of devices shares the memory and the slowest links") {
  const Profile profile =
      machine(4, links_of(4, [](auto a, auto b) { return a / 2 == b / 2 ? 0 : 1; }));
  const Cluster cluster = cluster_of_profile(profile, "p.db", 16);
  CHECK(device_count(cluster) == 16);
  CHECK(total_memory(cluster) == 8_GiB);
  CHECK(cluster.node_types[0].levels.size() == 1);
  CHECK(device_count(cluster_of_profile(profile, "p.db", 1)) == 1);
}

TEST_CASE("links that were not all measured are assumed") {
  Profile profile = machine(4, links_of(4, [](auto, auto) { return 0; }));
  profile.links.pop_back();
  const Cluster cluster = cluster_of_profile(profile, "p.db");
  REQUIRE(cluster.node_types[0].levels.size() == 1);
  CHECK(cluster.node_types[0].levels[0].bandwidth.origin == Origin::Assumed);
}

TEST_CASE("a profile that describes no machine, or several, or half of one, is refused") {
  const auto refused = [](const Profile& profile, const std::string& message) {
    CHECK_THROWS_WITH(cluster_of_profile(profile, "p.db"), Catch::Contains(message));
  };
  const Profile whole = machine(2, links_of(2, [](auto, auto) { return 0; }));
  refused({}, "p.db: describes no machine");
  Profile two = whole;
  two.provenances.push_back({"another", "", ""});
  two.devices.push_back(two.devices[0]);
  two.devices[1].evidence.provenance = 1;
  refused(two, "p.db: describes 2 machines, expected one: box and another");
  Profile half = whole;
  half.kernels.clear();
  refused(half, "p.db: does not have all of a machine yet (products are missing)");
  half = whole;
  half.kernels.resize(2);
  refused(half, "additions are missing");
}

}  // namespace meshwright

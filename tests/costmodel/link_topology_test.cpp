#include "costmodel/probe/link_topology.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "costmodel/base/input_error.h"
#include "costmodel/price/transfer_cost.h"
#include "costmodel/probe/profile_cluster.h"
#include "tests/costmodel/profile_examples.h"
#include "tests/test_scale.h"

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

// How much the links of one level differ, either way.
constexpr double kNoise = 0.12;

// Groups of devices within groups: cores in sockets, sockets in nodes, nodes in a rack.
struct Nest {
  std::vector<std::int64_t> spans;         // devices of a group, innermost first
  std::vector<double> latency, bandwidth;  // by level
  std::vector<std::int64_t> place;         // of each device; in order, or mixed up
  bool in_order = true;

  std::int64_t devices() const { return spans.back(); }
  std::size_t level(std::int64_t a, std::int64_t b) const {
    const auto at = [&](std::int64_t device) { return place[static_cast<std::size_t>(device)]; };
    std::size_t level = 0;
    while (at(a) / spans[level] != at(b) / spans[level]) ++level;
    return level;
  }
  // By their smallest member, as they are found.
  Groups groups(std::size_t of_level) const {
    Groups result;
    std::map<std::int64_t, std::size_t> known;
    for (std::int64_t device = 0; device < devices(); ++device) {
      const std::int64_t group = place[static_cast<std::size_t>(device)] / spans[of_level];
      const auto [entry, added] = known.try_emplace(group, result.size());
      if (added) result.emplace_back();
      result[entry->second].push_back(device);
    }
    return result;
  }
};

// One to three levels of two to four members each. From a level to the next the bandwidth falls,
// the latency grows, or both, by two to ten times: noise moves two times to no less than 1.57.
Nest random_nest(std::mt19937& random) {
  const auto draw = [&](int most) {
    return static_cast<int>(random() % static_cast<std::uint32_t>(most));
  };
  Nest nest;
  double latency = 1e-6 * (1 + draw(20)), bandwidth = 1e9 * (5 + draw(400));
  std::int64_t span = 1;
  for (int level = 0, levels = 1 + draw(3); level < levels; ++level) {
    span *= 2 + draw(3);
    nest.spans.push_back(span);
    nest.latency.push_back(latency);
    nest.bandwidth.push_back(bandwidth);
    const int which = draw(3);
    if (which != 0) latency *= 2 + draw(9);
    if (which != 1) bandwidth /= 2 + draw(9);
  }
  for (std::int64_t i = 0; i < span; ++i) nest.place.push_back(i);
  nest.in_order = draw(2) == 0;
  if (!nest.in_order) {
    for (std::size_t i = nest.place.size(); i > 1; --i) {
      std::swap(nest.place[i - 1], nest.place[random() % i]);
    }
  }
  return nest;
}

std::vector<LinkTime> links_of(const Nest& nest, std::mt19937& random) {
  const auto noise = [&] {
    return 1 - kNoise + 2 * kNoise * static_cast<double>(random() % 1001) / 1000;
  };
  std::vector<LinkTime> links;
  for (std::int64_t a = 0; a < nest.devices(); ++a) {
    for (std::int64_t b = a + 1; b < nest.devices(); ++b) {
      const std::size_t level = nest.level(a, b);
      links.push_back({measured_by(0), "core", a, b, Seconds(nest.latency[level] * noise()),
                       BytesPerSecond(nest.bandwidth[level] * noise())});
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

TEST_CASE("one device has no links, two have one") {
  const LinkTopology alone = find_topology(1, {});
  CHECK(alone.classes.empty());
  CHECK(alone.groups.empty());
  CHECK(alone.nested);
  const LinkTopology pair = find_topology(2, links_of(2, [](auto, auto) { return 0; }));
  CHECK(pair.groups == std::vector<Groups>{{{0, 1}}});
}

TEST_CASE("links that differ in bandwidth alone are told apart, and so are latencies") {
  // NVLink pairs in a node of PCIe: 8 us through NCCL either way, 250 and 20 GB/s.
  const auto links = [](Seconds near_latency, double near, Seconds far_latency, double far) {
    std::vector<LinkTime> result;
    for (std::int64_t a = 0; a < 8; ++a) {
      for (std::int64_t b = a + 1; b < 8; ++b) {
        const bool close = a / 2 == b / 2;
        result.push_back({measured_by(0), "gpu", a, b, close ? near_latency : far_latency,
                          BytesPerSecond(close ? near : far)});
      }
    }
    return result;
  };
  const Groups pairs = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
  for (const auto& found : {find_topology(8, links(8.0_us, 250e9, 8.0_us, 20e9)),
                            find_topology(8, links(8.0_us, 50e9, 8.0_us, 25e9)),
                            find_topology(8, links(2.0_us, 10e9, 4.0_us, 10e9))}) {
    REQUIRE(found.classes.size() == 2);
    CHECK(found.groups[0] == pairs);
    CHECK(found.nested);
  }
}

TEST_CASE("random nested groups are found again through noise") {
  for (int seed = 0; seed < cases(200, 2000); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const Nest nest = random_nest(random);
    const LinkTopology found = find_topology(nest.devices(), links_of(nest, random));
    REQUIRE(found.classes.size() == nest.spans.size());
    CHECK(found.nested);
    for (std::size_t level = 0; level < nest.spans.size(); ++level) {
      CHECK(found.groups[level] == nest.groups(level));
      if (nest.in_order) CHECK(span_of(found.groups[level]) == nest.spans[level]);
      // The median is within the noise of what the level was made with.
      CHECK(found.classes[level].bandwidth.value() ==
            Approx(nest.bandwidth[level]).epsilon(kNoise + 0.01));
      CHECK(found.classes[level].latency.value() ==
            Approx(nest.latency[level]).epsilon(kNoise + 0.01));
    }
  }
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

TEST_CASE("measured copies are what the host's link carries") {
  Profile profile = machine(2, links_of(2, [](auto, auto) { return 0; }));
  CHECK(cluster_of_profile(profile, "p.db").node_types[0].host->bandwidth.origin ==
        Origin::Assumed);
  const auto copy = [](const char* fit, double rate) {
    return FitParameter{measured_by(0), "core", fit, "bytes_per_s", rate};
  };
  profile.fits = {copy("copy from host", 6e9), copy("copy to host", 5e9),
                  copy("copy within device", 1e9)};
  const Cluster cluster = cluster_of_profile(profile, "p.db");
  CHECK(cluster.node_types[0].host->bandwidth.origin == Origin::Measured);
  CHECK(host_link_capacity(*cluster.node_types[0].host).value() == Approx(5e9));
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

#include "costmodel/price/collective_time.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/costmodel/cost_examples.h"

namespace meshwright {
namespace {

// Nodes with links of 100 GB/s and 1 us inside, cards of 10 GB/s and 2 us.
const GroupLinks kLinks = {
    .inside = {BytesPerSecond(100e9), 1.0_us, Fabric::NvLink},
    .network = {BytesPerSecond(10e9), 2.0_us, Fabric::InfiniBand},
};

GroupShape even_group(std::int64_t domains, std::int64_t each) {
  return {.members = domains * each,
          .domains = domains,
          .fewest_in_domain = each,
          .most_in_domain = each};
}

// Bandwidth alone.
LinkFit bandwidth_only() {
  const ProtocolFit half{.share = 0.5};
  return {.small = {.base_s = 1, .share = 1}, .large = half, .all_to_all = half};
}
NetworkFits network_of(const NetworkFit& fit, const HopFactors& inside = {}) {
  return {.between = {{Fabric::InfiniBand, fit}}, .inside = {{Fabric::NvLink, inside}}};
}
NetworkFit network_bandwidth_only() {
  return {.small_base_s = 1,
          .medium_base_s = 1,
          .small_bytes_per_s = 1e9,
          .medium_share = 0.8,
          .ring_share = 0.8,
          .tree_share = 0.4,
          .peer_share = 0.8,
          .pair_share = 0.8};
}

double alone_time(TransferKind kind, std::int64_t size, const GroupShape& shape,
                  const LinkFit& fit = bandwidth_only(),
                  const NetworkFits& network = network_of(network_bandwidth_only())) {
  return collective_time(kind, Bytes(size), shape, kLinks, fit, network).time.value();
}

Algorithm algorithm_of(TransferKind kind, std::int64_t size, const GroupShape& shape,
                       const GroupLinks& links, const LinkFit& fit) {
  return collective_time(kind, Bytes(size), shape, links, fit, typical_network()).algorithm;
}

LinkFit typical_links() { return formula_fit({.name = "device"}).links; }

}  // namespace

TEST_CASE("the time of a large transfer is its volume at the fitted share of the bandwidth") {
  // nccl-tests: bus bandwidth = volume / time, the volume of an all-reduce 2 S (n-1)/n.
  CHECK(alone_time(TransferKind::AllReduce, 8'000'000, even_group(1, 8)) == near(14e6 / 50e9));
  for (const auto kind :
       {TransferKind::AllGather, TransferKind::ReduceScatter, TransferKind::AllToAll}) {
    CHECK(alone_time(kind, 8'000'000, even_group(1, 8)) == near(7e6 / 50e9));
  }
  for (const auto kind : {TransferKind::Send, TransferKind::Receive, TransferKind::Broadcast}) {
    CHECK(alone_time(kind, 8'000'000, even_group(1, 2)) == near(8e6 / 50e9));
  }
}

TEST_CASE("latency, steps and ramp are added, and the faster protocol is taken") {
  LinkFit fit = bandwidth_only();
  fit.large = {.base_s = 10e-6, .hops = 3, .share = 1, .ramp_s = 1e-9};
  // 2 x 3 steps of three latencies of 1 us; 1.5 x 4 MB.
  CHECK(alone_time(TransferKind::AllReduce, 4'000'000, even_group(1, 4), fit) ==
        near(10e-6 + 18e-6 + 6e6 / 100e9 + 1e-9 * std::sqrt(6e6)));
  fit.small = {.base_s = 1e-6, .hops = 1, .share = 0.1};
  CHECK(alone_time(TransferKind::AllReduce, 4000, even_group(1, 4), fit) ==
        near(7e-6 + 6000 / 10e9));
}

TEST_CASE("a ring over nodes uses the cards of all its members on a node") {
  const std::int64_t size = 16'000'000;
  // S 15/16 = 15 MB through 8 cards at 0.8 of 10 GB/s would be 64 GB/s; the node's links carry 50.
  CHECK(alone_time(TransferKind::AllGather, size, even_group(2, 8)) == near(15e6 / 50e9));
  // Two members on each of 8 nodes: 16 GB/s.
  CHECK(alone_time(TransferKind::AllGather, size, even_group(8, 2)) == near(15e6 / 16e9));
  // One member on each: the links inside do not matter.
  CHECK(alone_time(TransferKind::AllReduce, size, even_group(16, 1)) == near(30e6 / 8e9));
  // Where nodes have different numbers, the cards of the one with fewest.
  const GroupShape uneven{.members = 16, .domains = 3, .fewest_in_domain = 2, .most_in_domain = 8};
  CHECK(alone_time(TransferKind::AllGather, size, uneven) == near(15e6 / 16e9));
  // Of an all-to-all 8/16 leaves the node, each through its own card.
  CHECK(alone_time(TransferKind::AllToAll, size, even_group(2, 8)) == near(8e6 / 8e9));
}

TEST_CASE("a send takes its latency and its bytes through one card") {
  NetworkFit network = network_bandwidth_only();
  network.small_base_s = 6e-6;
  network.pair = 2;
  for (const auto kind : {TransferKind::Send, TransferKind::Receive}) {
    CHECK(alone_time(kind, 16'000'000, even_group(2, 1), bandwidth_only(), network_of(network)) ==
          near(6e-6 + 4e-6 + 16e6 / 8e9));
  }
}

TEST_CASE("a ring's steps inside and between nodes take their own latencies") {
  NetworkFit network = network_bandwidth_only();
  network.large_base_s = 5e-6;
  network.hops.ring_large = 5;
  // 15 steps, of which 1 leaves a node: 14 of 3 x 1 us, 1 of 5 x 2 us.
  CHECK(alone_time(TransferKind::AllGather, 16'000'000, even_group(2, 8), bandwidth_only(),
                   network_of(network, {.ring_large = 3})) ==
        near(5e-6 + 42e-6 + 10e-6 + 15e6 / 50e9));
}

TEST_CASE("a tree goes up and down a chain in each node and a level for every doubling") {
  NetworkFit network = network_bandwidth_only();
  network.small_base_s = 7e-6;
  network.large_base_s = 1;
  network.hops.tree_small = 2.5;
  network.hops.ring_small = 100;
  // 2 x (7 x 0.6 us + 3 x 2.5 x 2 us) over 8 nodes of 8.
  CHECK(alone_time(TransferKind::AllReduce, 0, even_group(8, 8), bandwidth_only(),
                   network_of(network, {.ring_small = 1, .tree_small = 0.6})) ==
        near(7e-6 + 2 * (7 * 0.6e-6 + 3 * 5e-6)));
}

TEST_CASE("over two nodes that reduce in their switches a tree sends every byte once each way") {
  NetworkFit network = network_bandwidth_only();
  network.ring_share = 0.1;
  network.tree_share = 0.2;
  const auto time = [&](std::int64_t nodes, bool in_switch) {
    LinkFit fit = bandwidth_only();
    if (in_switch) fit.in_switch = fit.large;
    GroupLinks links = kLinks;
    links.in_switch = in_switch;
    return collective_time(TransferKind::AllReduce, Bytes(1'000'000'000), even_group(nodes, 8),
                           links, fit, network_of(network))
        .time.value();
  };
  // Eight cards at 2 GB/s: S over two nodes; 2 S 15/16 without switches, 2 S 31/32 over four.
  CHECK(time(2, true) == near(1e9 / 16e9));
  CHECK(time(2, false) == near(2e9 * 15 / 16 / 16e9));
  CHECK(time(4, true) == near(2e9 * 31 / 32 / 16e9));
}

TEST_CASE("ring steps") {
  CHECK(ring_steps(TransferKind::AllReduce, even_group(1, 8)).inside == 14);
  CHECK(ring_steps(TransferKind::AllGather, even_group(4, 8)).network == 3);
  CHECK(ring_steps(TransferKind::AllGather, even_group(4, 8)).inside == 28);
  CHECK(ring_steps(TransferKind::Send, even_group(2, 1)).network == 1);
  CHECK(ring_steps(TransferKind::Send, even_group(2, 1)).inside == 0);
}

TEST_CASE("small all-reduces take a tree, and gathers one only with one device a node") {
  const auto algorithm = [](TransferKind kind, std::int64_t size, const GroupShape& shape) {
    return algorithm_of(kind, size, shape, kLinks, typical_links());
  };
  CHECK(algorithm(TransferKind::AllReduce, 1000, even_group(64, 8)) == Algorithm::SmallTree);
  CHECK(algorithm(TransferKind::AllReduce, 100'000'000, even_group(64, 8)) == Algorithm::LargeTree);
  CHECK(algorithm(TransferKind::AllReduce, 100'000'000'000, even_group(4, 1)) ==
        Algorithm::LargeRing);
  CHECK(algorithm(TransferKind::AllGather, 1000, even_group(64, 8)) == Algorithm::SmallRing);
  CHECK(algorithm(TransferKind::AllGather, 1'000'000'000, even_group(4, 8)) ==
        Algorithm::LargeRing);
  CHECK(algorithm(TransferKind::AllGather, 1000, even_group(64, 1)) == Algorithm::ParallelTrees);
  CHECK(algorithm(TransferKind::Broadcast, 1000, even_group(64, 1)) == Algorithm::SmallRing);
  CHECK(algorithm(TransferKind::AllToAll, 1000, even_group(64, 8)) == Algorithm::Direct);
}

TEST_CASE("switches reduce for groups of five and more in a node") {
  GroupLinks switched = kLinks;
  switched.in_switch = true;
  LinkFit fit = typical_links();
  fit.in_switch = {.base_s = 20e-6, .hops = 1, .share = 1};
  const auto algorithm = [&](std::int64_t size, const GroupShape& shape, const GroupLinks& links) {
    return algorithm_of(TransferKind::AllReduce, size, shape, links, fit);
  };
  CHECK(algorithm(1'000'000'000, even_group(1, 8), switched) == Algorithm::InSwitch);
  CHECK(algorithm(1'000'000'000, even_group(1, 4), switched) == Algorithm::LargeRing);
  CHECK(algorithm(1'000'000'000, even_group(1, 8), kLinks) == Algorithm::LargeRing);
  // A small one is done before the switch has started: 14 steps of 1 us and 7 us.
  CHECK(algorithm(1000, even_group(1, 8), switched) == Algorithm::SmallRing);
}

TEST_CASE("rows that are merged go once to every node and device that has an expert of theirs") {
  constexpr double kStart = 1e-4, kCall = 1.25;
  // Of 8 choices among 8, 32 and 64 places so many are reached.
  for (const auto& [places, reached] : {std::pair(8, 5.25), std::pair(32, 7.18)}) {
    // 1 MB a token's choice: 8 MB of copies.
    const double time =
        merged_rows_time(Bytes(8'000'000), 8, even_group(1, places), kLinks).value();
    CHECK(time / kCall - kStart == Approx(1e6 * reached / (0.85 * 100e9)).epsilon(0.002));
  }
  // Of 8 nodes of 8, 5.25 are reached, one of eight times the own.
  const double beyond = 1e6 * 5.25 * 7 / 8 / (0.88 * 10e9);
  CHECK(merged_rows_time(Bytes(8'000'000), 8, even_group(8, 8), kLinks).value() / kCall - kStart ==
        Approx(beyond).epsilon(0.002));
  // One copy goes somewhere; nothing is merged.
  CHECK(merged_rows_time(Bytes(8'000'000), 1, even_group(1, 4), kLinks).value() / kCall - kStart ==
        Approx(8e6 / (0.85 * 100e9)));
}

}  // namespace meshwright

#include "costmodel/price/cost_model.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "tests/costmodel/cluster_examples.h"
#include "tests/costmodel/cost_examples.h"
#include "tests/flat_transfer.h"

namespace meshwright {
namespace {

constexpr Seconds kLaunch = 3.0_us;

// Two nodes of four devices: 100 TFLOP/s in fp16, 900 GB/s of memory; pairs at 100 GB/s, the node
// at 25 GB/s, the network at 10 GB/s; 1 us everywhere.
Cluster two_nodes() {
  return {.name = "two nodes",
          .node_types = {node_of_devices("node", 4, {2})},
          .nodes = {{0, 2}},
          .network = {links("network", std::nullopt, 10.0_GBps)}};
}

Kernel matmul(std::int64_t m, std::int64_t k, std::int64_t n) {
  Operand result = dense_operand({m, n});
  result.written = true;
  return {.kind = KernelKind::Matmul,
          .operands = {dense_operand({m, k}), dense_operand({k, n}), result}};
}

Transfer transfer(TransferKind kind, const std::vector<std::size_t>& group, std::int64_t count) {
  Transfer result{.kind = kind};
  for (const std::size_t device : group) result.group.emplace_back(device);
  return flat(result, count);
}

Seconds price(const Cluster& cluster, const Kernel& kernel, Precision precision) {
  return FormulaCosts(cluster).kernel(kernel, precision, DeviceId(0)).time;
}

Seconds price(const Cluster& cluster, const Transfer& transfer) {
  return FormulaCosts(cluster).transfer(transfer, Precision::FP16).time;
}

}  // namespace

TEST_CASE("a large matrix product takes its arithmetic at the share of the peak") {
  Cluster cluster = two_nodes();
  const Kernel kernel = matmul(4096, 4096, 4096);
  const double flops = 2.0 * 4096 * 4096 * 4096;
  CHECK(price(cluster, kernel, Precision::FP16).value() ==
        near(flops / (100e12 * 0.8) + kLaunch.value()));
  cluster.node_types[0].device.matmul_share = declared(0.5);
  CHECK(price(cluster, kernel, Precision::FP16).value() ==
        near(flops / (100e12 * 0.5) + kLaunch.value()));
}

TEST_CASE("a kernel that computes little takes its memory traffic") {
  const Cluster cluster = two_nodes();
  // Two read and one written, two bytes each.
  CHECK(price(cluster, addition(1'000'000'000), Precision::FP16).value() ==
        near(3 * 2 * 1e9 / (900e9 * 0.9) + kLaunch.value()));
  // One row: the weight alone is 2 * 4096 * 4096 bytes for 2 * 4096 * 4096 operations.
  const double bytes = 2.0 * (4096.0 * 4096 + 2 * 4096);
  CHECK(price(cluster, matmul(1, 4096, 4096), Precision::FP16).value() ==
        near(bytes / (900e9 * 0.9) + kLaunch.value()));
}

TEST_CASE("no kernel is shorter than its launch") {
  CHECK(price(two_nodes(), addition(0), Precision::FP16) == kLaunch);
}

TEST_CASE("a precision without a peak is computed in the one before it, or slower after it") {
  DeviceType device = small_device("device");  // fp16 at 100 TFLOP/s
  CHECK(peak_of(device, Precision::FP16) == 100.0_TFLOPps);
  CHECK(peak_of(device, Precision::BF16) == 100.0_TFLOPps);
  CHECK(peak_of(device, Precision::FP8) == 100.0_TFLOPps);
  CHECK(peak_of(device, Precision::TF32) == 50.0_TFLOPps);
  CHECK(peak_of(device, Precision::FP32) == 50.0_TFLOPps);
  CHECK(peak_of(device, Precision::FP64) == 25.0_TFLOPps);
  device.peak.emplace(Precision::FP32, declared(20.0_TFLOPps));
  CHECK(peak_of(device, Precision::TF32) == 20.0_TFLOPps);
  CHECK(peak_of(device, Precision::FP64) == 10.0_TFLOPps);
  CHECK(peak_of(device, Precision::FP8) == 100.0_TFLOPps);
}

TEST_CASE("transfers take their steps' latency and their bytes at the outermost level") {
  const Cluster cluster = two_nodes();
  const std::int64_t count = 1'000'000;  // 2 MB in fp16
  // Ring over the pair: 2 (n-1) = 2 steps, 2 S (n-1)/n = 2 MB each.
  CHECK(price(cluster, transfer(TransferKind::AllReduce, {0, 1}, count)).value() ==
        near(2e-6 + 2e6 / 100e9));
  // Over the node: 6 steps, 2 * 2 MB * 3/4.
  CHECK(price(cluster, transfer(TransferKind::AllReduce, {0, 1, 2, 3}, count)).value() ==
        near(6e-6 + 3e6 / 25e9));
  // Over the network: 7 steps, 2 MB * 7/8.
  for (const auto kind :
       {TransferKind::ReduceScatter, TransferKind::AllGather, TransferKind::AllToAll}) {
    CHECK(price(cluster, transfer(kind, {0, 1, 2, 3, 4, 5, 6, 7}, count)).value() ==
          near(7e-6 + 2e6 * 7 / 8 / 10e9));
  }
  CHECK(price(cluster, transfer(TransferKind::Broadcast, {1, 2, 3}, count)).value() ==
        near(2e-6 + 2e6 / 25e9));
  // The members in any order.
  CHECK(price(cluster, transfer(TransferKind::Send, {4, 3}, count)).value() ==
        near(1e-6 + 2e6 / 10e9));
  CHECK(price(cluster, transfer(TransferKind::Receive, {4, 3}, count)) ==
        price(cluster, transfer(TransferKind::Send, {4, 3}, count)));
}

TEST_CASE("a group of one has nothing to transfer") {
  CHECK(price(two_nodes(), transfer(TransferKind::AllReduce, {5}, 1'000'000)) == Seconds(0));
}

TEST_CASE("over-subscription divides the bandwidth") {
  Cluster cluster = two_nodes();
  cluster.network[0].oversubscription = declared(4.0);
  CHECK(price(cluster, transfer(TransferKind::Send, {0, 4}, 1'000'000)).value() ==
        near(1e-6 + 2e6 / (10e9 / 4)));
}

TEST_CASE("the member with the slowest link sets the pace") {
  Cluster cluster = two_nodes();
  cluster.node_types.push_back(node_of_devices("slow", 4, {2}));
  cluster.node_types[1].network_bandwidth.emplace("network", declared(5.0_GBps));
  cluster.nodes.push_back({1, 1});
  CHECK(price(cluster, transfer(TransferKind::Send, {0, 4}, 1'000'000)).value() ==
        near(1e-6 + 2e6 / 10e9));
  CHECK(price(cluster, transfer(TransferKind::AllGather, {0, 4, 8}, 1'500'000)).value() ==
        near(2e-6 + 2e6 / 5e9));
}

TEST_CASE("an all-gather and a reduce-scatter cost what an all-reduce does") {
  CHECK(rc::check([] {
    const Cluster cluster = two_nodes();
    const auto members = *rc::gen::inRange<std::size_t>(1, 9);
    std::vector<std::size_t> group;
    for (std::size_t i = 0; i < members; ++i) group.push_back(i);
    const auto count = *rc::gen::inRange<std::int64_t>(0, 1 << 30);
    const Seconds parts = price(cluster, transfer(TransferKind::ReduceScatter, group, count)) +
                          price(cluster, transfer(TransferKind::AllGather, group, count));
    const Seconds whole = price(cluster, transfer(TransferKind::AllReduce, group, count));
    RC_ASSERT(std::abs((parts - whole).value()) <= 1e-12 * whole.value());
  }));
}

TEST_CASE("a copy to the host takes its launch and its bytes at the host link's pace") {
  Cluster cluster = two_nodes();
  cluster.node_types[0].host =
      Host{declared(1_GiB), declared(50.0_GBps), declared(std::int64_t{4})};
  const HostCopy copy{CopyDirection::ToHost, 22'000'000};
  const Price price = FormulaCosts(cluster).host_copy(copy, Precision::FP16, DeviceId(5));
  // 44 MB at 0.88 x 50 GB/s.
  CHECK(price.time.value() == near(10e-6 + 1e-3));
  CHECK(price.origin == PriceOrigin::Formula);
}

}  // namespace meshwright

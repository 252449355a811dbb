#include "costmodel/price/cost_model.h"

#include <catch2/catch.hpp>

#include "tests/costmodel/cluster_examples.h"
#include "tests/costmodel/cost_examples.h"
#include "tests/flat_transfer.h"

namespace meshwright {

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

TEST_CASE("a copy to the host takes its launch and its bytes at the host link's pace") {
  Cluster cluster{.name = "two nodes",
                  .node_types = {node_of_devices("node", 4)},
                  .nodes = {{0, 2}},
                  .network = {links("network", std::nullopt, 10.0_GBps)}};
  cluster.node_types[0].host =
      Host{declared(1_GiB), declared(50.0_GBps), declared(std::int64_t{4})};
  const HostCopy copy{CopyDirection::ToHost, 22'000'000};
  const Price price = host_copy_price(copy, Precision::FP16, cluster, DeviceId(5));
  // 44 MB at 0.88 x 50 GB/s.
  CHECK(price.time.value() == Approx(10e-6 + 1e-3).epsilon(1e-12).margin(0));
  CHECK(price.origin == PriceOrigin::Formula);
}

}  // namespace meshwright
